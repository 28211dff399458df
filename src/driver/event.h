/* Beside enum coir_events. */
#ifndef CI_DRIVER_EVENT_H
#define CI_DRIVER_EVENT_H

enum {
    CI_EVENT_END = 16,    /* the peer will send no more, so a read would not block */
    CI_EVENT_URGENT = 32, /* a receive ends before an urgent byte, and more may follow it */
};

#endif
