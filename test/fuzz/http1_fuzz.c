/* Any bytes, cut anywhere: the parser answers the same as for the whole, stays inside its input, and a chunked body's too. */
#include "../chunked.h"

static const struct ci_http1_limits limits = {500, 2000};

static int parse(struct ci_http1_head *head, const char *text, size_t len, size_t cut)
{
    ci_http1_head_init(head);
    int rc = cut < len ? ci_http1_parse(head, &limits, text, cut) : 0;
    return rc ? rc : ci_http1_parse(head, &limits, text, len);
}

static void check_inside(struct ci_span span, size_t len)
{
    if (span.at > len || span.len > len - span.at)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t cut = data[0] * (size - 1) / 255, len = size - 1;
    char *text = malloc(len ? len : 1); /* so that a step outside is seen */
    memcpy(text, data + 1, len);
    struct ci_http1_head whole, pieces;
    int a = parse(&whole, text, len, len), b = parse(&pieces, text, len, cut);
    if (a != b && !(a < 0 && b < 0)) /* of two faults, either may be found first */
        abort();
    if (a > 0) {
        check_inside(whole.method, len);
        check_inside(whole.target, len);
        check_inside(whole.path, len);
        check_inside(whole.query, len);
        check_inside(whole.host, len);
        for (uint32_t i = 0; i < whole.field_count; i++) {
            check_inside(whole.fields[i].name, len);
            check_inside(whole.fields[i].value, len);
        }
    }
    size_t used_whole = 0, used_pieces = 0;
    if (decode_chunked(text, len, len ? len : 1, NULL, &used_whole) != decode_chunked(text, len, 1 + cut % 7, NULL, &used_pieces))
        abort();
    if (used_whole != used_pieces)
        abort();
    free(text);
    return 0;
}
