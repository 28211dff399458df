/* What the showcase serves over TLS with; the build picks tls.c, or no_tls.c without OpenSSL. */
#ifndef SHOWCASE_SECURE_H
#define SHOWCASE_SECURE_H

#include <coir.h>

/* The layer for a server's options, of the files CERT and KEY in the environment, or of a
 * certificate for "localhost" that is made now. 0 or a negative error, which was printed. */
int secure_open(coir_layer_fn **ret_layer, void **ret_arg);
void secure_close(void *arg);

#endif
