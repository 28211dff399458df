/* Any bytes, cut anywhere: the parser answers as for the whole, stays inside its input, and says of
 * heads and chunked bodies what a second parser says that is written from the RFCs' grammars
 * (http1_oracle.h). */
#include "../http1_compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > ABNF_TEXT_MAX)
        return 0;
    size_t cut = data[0] * (size - 1) / 255, len = size - 1;
    char *text = malloc(len ? len : 1); /* so that a step outside is seen */
    memcpy(text, data + 1, len);
    if (compare_heads(text, len, cut) || compare_bodies(text, len, 1 + cut % 7))
        abort();
    free(text);
    return 0;
}
