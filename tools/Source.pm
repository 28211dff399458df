# What the checks in this folder share: reading C as text.
package Source;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(calls_of cannot_fail contents code_of comments_of head_of headers_and_sources
    public_functions);

sub contents {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!\n";
    local $/;
    return scalar <$in>;
}

my $token = qr{(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')}s;

# The text with its comments replaced by as many empty lines. Literals stay.
sub code_of {
    my ($text) = @_;
    $text =~ s{$token}{ defined $1 ? $1 =~ s/[^\n]//gr . ' ' : $2 }ge;
    return $text;
}

# The comments of a text: [line, text], in order.
sub comments_of {
    my ($text) = @_;
    my ($line, $at, @comments) = (1, 0);
    while ($text =~ /$token/g) {
        my ($comment, $start) = ($1, $-[0]);
        $line += substr($text, $at, $start - $at) =~ tr/\n//;
        $at = $start;
        push @comments, [$line, $comment] if defined $comment;
    }
    return @comments;
}

my $balanced = qr{(\((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^()"']|(?-1))*\))}s;

# Where code without comments uses a macro whose name `name` matches: [line, name, what stands
# between its parentheses].
sub calls_of {
    my ($code, $name) = @_;
    my @calls;
    while ($code =~ /\b($name)$balanced/g) {
        my ($line, $macro, $arguments) = (1 + substr($code, 0, $-[0]) =~ tr/\n//, $1, $2);
        push @calls, [$line, $macro, $arguments =~ s/\A\(\s*|\s*\)\z//gr];
    }
    return @calls;
}

# Whether a part of a condition is a constant, compares a thing with itself, or stands beside its
# own negation.
sub cannot_fail {
    my ($condition) = @_;
    my @parts = split /&&|\|\|/, $condition;
    for (@parts) {
        s/\A\s+|\s+\z//g;
        1 while tr/(// > tr/)// && s/\A\(\s*// || tr/(// < tr/)// && s/\s*\)\z//;
    }
    my %is = map { $_ => 1 } @parts;
    for (@parts) {
        return 1 if !/\b(?!true\b|false\b|NULL\b)[A-Za-z_]/ || $is{"!$_"};
        return 1 if /\A([^()]+?)\s*(?:==|<=|>=|,)\s*\1\z/s;
    }
    return 0;
}

# The comment that a file begins with, or ''.
sub head_of {
    my ($text) = @_;
    return $text =~ m{\A\s*(/\*.*?\*/)}s ? $1 : '';
}

sub headers_and_sources {
    my (@folders) = @_;
    my @found;
    for my $folder (@folders) {
        next if !-d $folder;
        push @found, split /\n/, qx(find $folder -name '*.[ch]');
    }
    return sort @found;
}

# The functions that the public headers declare, by name: the header.
sub public_functions {
    my %functions;
    for my $header (glob 'include/coir/*.h') {
        my $code = code_of(contents($header));
        $code =~ s/\\\n//g;
        $code =~ s/^#.*$//mg;
        $functions{$1} = $header
            while $code =~ /^(?:COIR_API|COIR_SUSPENDS|static inline)\s[^;{]*?\b(coir_\w+)(?<!_)\(/mg;
    }
    return \%functions;
}

1;
