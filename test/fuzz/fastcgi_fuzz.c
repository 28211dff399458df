/* Any bytes, cut anywhere, as a FastCGI answer and as the head of a CGI program: the readers answer
 * as for the whole, stay inside their input, and say of an answer what a second reader says that is
 * written from the specification (fastcgi_oracle.h). */
#include <stdlib.h>

#include "../fastcgi_compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t len = size - 1, cut = data[0] * len / 255;
    char *text = malloc(len ? len : 1); /* so that a step outside is seen */
    memcpy(text, data + 1, len);
    if (compare_answers((const unsigned char *)text, len, 1 + data[0] % 19, 1 + data[0] % 7) ||
        compare_cgi_heads(text, len, cut))
        abort();
    free(text);
    return 0;
}
