/* Beside enum coir_events: the peer will send no more, so a read would not block. */
#ifndef CI_DRIVER_EVENT_H
#define CI_DRIVER_EVENT_H

enum { CI_EVENT_END = 16 };

#endif
