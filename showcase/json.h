/* Messages of the chat as JSON texts. */
#ifndef SHOWCASE_JSON_H
#define SHOWCASE_JSON_H

#include <coir/ws.h>
#include <stdio.h>

struct json {
    FILE *file; /* NULL: out of memory */
    char *text;
    size_t len;
};

/* Begins an object: {"type":"..." */
void json_begin(struct json *json, const char *type);
/* Another field of it: "name": and what fprintf would write. */
void json_add(struct json *json, const char *name, const char *format, ...) COIR_PRINTF(3, 4);
/* A field that is a string. */
void json_add_string(struct json *json, const char *name, const char *text);
/* A string, with its quotes. */
void json_string(struct json *json, const char *text);
/* Ends the object, and makes a message of it. 0 or a negative error. */
int json_end(struct json *json, coir_ws_message **ret_message);

#endif
