#include "json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

void json_begin(struct json *json, const char *type)
{
    *json = (struct json){NULL, NULL, 0};
    json->file = open_memstream(&json->text, &json->len);
    if (json->file)
        fprintf(json->file, "{\"type\":\"%s\"", type);
}

void json_add(struct json *json, const char *name, const char *format, ...)
{
    if (!json->file)
        return;
    va_list args;
    va_start(args, format);
    fprintf(json->file, ",\"%s\":", name);
    vfprintf(json->file, format, args);
    va_end(args);
}

void json_string(struct json *json, const char *text)
{
    if (!json->file)
        return;
    fputc('"', json->file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(json->file, "\\%c", c);
        else if (c < 0x20)
            fprintf(json->file, "\\u%04x", c);
        else
            fputc(c, json->file);
    }
    fputc('"', json->file);
}

void json_add_string(struct json *json, const char *name, const char *text)
{
    json_add(json, name, "%s", "");
    json_string(json, text);
}

int json_end(struct json *json, coir_ws_message **ret_message)
{
    if (!json->file)
        return -ENOMEM;
    fputc('}', json->file);
    int rc = fclose(json->file) == 0
                 ? coir_ws_message_new(COIR_WS_TEXT, json->text, json->len, ret_message)
                 : -ENOMEM;
    free(json->text);
    return rc;
}
