/* Matches text against grammars as RFCs write them (RFC 5234), slowly and obviously: a set of
 * places where the text may have got to goes through the rule's text from left to right. What is
 * there of ABNF: rules, sequences, alternatives, groups, options, n*m, strings in either case, %xNN
 * and %xNN-NN. Rules may not be recursive. */
#ifndef TEST_ABNF_H
#define TEST_ABNF_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ABNF_TEXT_MAX = 1023 };

struct abnf_rule {
    const char *name, *text;
};

struct abnf {
    const struct abnf_rule *rules; /* the last one has no name */
    const char *text;
    size_t len;
};

/* Places in the text, a bit each, all between `from` and `to`. */
struct abnf_places {
    size_t from, to; /* none: from > to */
    uint64_t bits[ABNF_TEXT_MAX / 64 + 1];
};

static inline bool abnf_has(const struct abnf_places *places, size_t at)
{
    return places->bits[at / 64] >> at % 64 & 1;
}

static inline void abnf_none(struct abnf_places *places)
{
    *places = (struct abnf_places){.from = 1};
}

static inline bool abnf_add(struct abnf_places *places, size_t at)
{
    bool fresh = !abnf_has(places, at);
    if (places->from > places->to)
        places->from = places->to = at;
    places->bits[at / 64] |= (uint64_t)1 << at % 64;
    places->from = at < places->from ? at : places->from;
    places->to = at > places->to ? at : places->to;
    return fresh;
}

static inline bool abnf_add_all(struct abnf_places *places, const struct abnf_places *more)
{
    bool fresh = false;
    for (size_t at = more->from; at <= more->to; at++)
        if (abnf_has(more, at))
            fresh |= abnf_add(places, at);
    return fresh;
}

static inline const char *abnf_alternatives(const struct abnf *abnf, const char *rule,
                                            const struct abnf_places *from, struct abnf_places *to);

static inline const char *abnf_skip(const char *rule)
{
    while (*rule == ' ' || *rule == '\n')
        rule++;
    return rule;
}

static inline void abnf_follow(const struct abnf *abnf, const char *name, size_t name_len,
                               const struct abnf_places *from, struct abnf_places *to)
{
    for (const struct abnf_rule *rule = abnf->rules; rule->name; rule++)
        if (strlen(rule->name) == name_len && strncasecmp(rule->name, name, name_len) == 0) {
            abnf_alternatives(abnf, rule->text, from, to);
            return;
        }
    abort(); /* no such rule */
}

static inline const char *abnf_string(const struct abnf *abnf, const char *rule,
                                      const struct abnf_places *from, struct abnf_places *to)
{
    const char *end = strchr(rule, '"');
    size_t len = (size_t)(end - rule);
    for (size_t at = from->from; at <= from->to; at++)
        if (abnf_has(from, at) && abnf->len - at >= len &&
            strncasecmp(abnf->text + at, rule, len) == 0)
            abnf_add(to, at + len);
    return end + 1;
}

static inline const char *abnf_byte(const struct abnf *abnf, const char *rule,
                                    const struct abnf_places *from, struct abnf_places *to)
{
    char *end;
    unsigned long low = strtoul(rule, &end, 16),
                  high = *end == '-' ? strtoul(end + 1, &end, 16) : low;
    for (size_t at = from->from; at <= from->to; at++)
        if (abnf_has(from, at) && at < abnf->len && (unsigned char)abnf->text[at] >= low &&
            (unsigned char)abnf->text[at] <= high)
            abnf_add(to, at + 1);
    return end;
}

/* One element without its count: where it leads from each place of `from`. Returns what follows it
 * in the rule. */
static inline const char *abnf_element(const struct abnf *abnf, const char *rule,
                                       const struct abnf_places *from, struct abnf_places *to)
{
    abnf_none(to);
    if (*rule == '(' || *rule == '[') {
        const char *end = abnf_alternatives(abnf, rule + 1, from, to);
        if (*rule == '[')
            abnf_add_all(to, from);
        return end + 1;
    }
    if (*rule == '"')
        return abnf_string(abnf, rule + 1, from, to);
    if (*rule == '%')
        return abnf_byte(abnf, rule + 2, from, to);
    const char *end = rule;
    while (isalnum((unsigned char)*end) || *end == '-')
        end++;
    abnf_follow(abnf, rule, (size_t)(end - rule), from, to);
    return end;
}

static inline const char *abnf_repeated(const struct abnf *abnf, const char *rule,
                                        const struct abnf_places *from, struct abnf_places *to)
{
    char *after;
    unsigned long least = strtoul(rule, &after, 10), most = least;
    bool counted = after != rule;
    if (*after == '*') {
        rule = after + 1;
        most = strtoul(rule, &after, 10);
        most = after == rule ? ABNF_TEXT_MAX : most;
    } else if (!counted) {
        return abnf_element(abnf, rule, from, to);
    }
    struct abnf_places now = *from, next;
    const char *end = after;
    abnf_none(to);
    for (unsigned long i = 0; i <= most; i++) {
        if (i >= least && !abnf_add_all(to, &now))
            break; /* nothing new */
        end = abnf_element(abnf, after, &now, &next);
        now = next;
    }
    if (end == after)
        end = abnf_element(abnf, after, &now, &next);
    return end;
}

static inline const char *abnf_sequence(const struct abnf *abnf, const char *rule,
                                        const struct abnf_places *from, struct abnf_places *to)
{
    struct abnf_places next;
    *to = *from;
    for (rule = abnf_skip(rule); *rule && *rule != '/' && *rule != ')' && *rule != ']';
         rule = abnf_skip(rule)) {
        rule = abnf_repeated(abnf, rule, to, &next);
        *to = next;
    }
    return rule;
}

static inline const char *abnf_alternatives(const struct abnf *abnf, const char *rule,
                                            const struct abnf_places *from, struct abnf_places *to)
{
    struct abnf_places one;
    abnf_none(to);
    for (;;) {
        rule = abnf_sequence(abnf, rule, from, &one);
        abnf_add_all(to, &one);
        if (*rule != '/')
            break;
        rule++;
    }
    return rule;
}

/* Whether all of the text is what the rule says. */
static inline bool abnf_matches(const struct abnf_rule *rules, const char *rule, const char *text,
                                size_t len)
{
    if (len > ABNF_TEXT_MAX)
        abort();
    struct abnf abnf = {rules, text, len};
    struct abnf_places from, to;
    abnf_none(&from);
    abnf_add(&from, 0);
    abnf_follow(&abnf, rule, strlen(rule), &from, &to);
    return abnf_has(&to, len);
}

#endif
