# What the checks in this folder share: reading C as text.
package Source;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT_OK = qw(contents code_of comments_of head_of headers_and_sources public_functions);

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
