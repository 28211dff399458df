/* Sequential objects for histories (history.h). */
#ifndef TEST_SIM_MODELS_H
#define TEST_SIM_MODELS_H

#include <coir/channel.h>

#include "sim/history.h"

/* A channel of numbers. The context is a struct channel_shape. Results are those of coir, and a
 * receive that succeeds has the item as its result. */
enum channel_kind { CHANNEL_SEND, CHANNEL_TRY_SEND, CHANNEL_RECV, CHANNEL_TRY_RECV, CHANNEL_CLOSE };
enum { CHANNEL_ITEMS_MOST = 96 };
struct channel_shape {
    size_t capacity; /* 0: see history_check_meetings */
    enum coir_overflow overflow;
};
extern const struct history_model channel_model;

/* Without a capacity a send and its receive are one moment, which the model does not know: whether
 * every item was received by a call that had begun before the send returned, and the other way. */
bool history_check_meetings(const struct history *history);

/* A number: ADD gives the one before. */
enum register_kind { REGISTER_READ, REGISTER_WRITE, REGISTER_ADD };
extern const struct history_model register_model; /* the first value is 0 */

/* Units. TRY gives -EAGAIN also when others wait: then `arg` is negative. */
enum semaphore_kind { SEMAPHORE_ACQUIRE, SEMAPHORE_TRY, SEMAPHORE_RELEASE, SEMAPHORE_UNITS };
extern const struct history_model semaphore_model; /* the context is an int64_t: the first units */

/* A coir_latest: GET gives version * 1000 + value; WAIT has the version as its argument. */
enum latest_kind { LATEST_SET, LATEST_GET, LATEST_WAIT, LATEST_CLOSE };
extern const struct history_model latest_model; /* the first value is 0, in version 1 */

enum event_kind { EVENT_SET, EVENT_RESET, EVENT_WAIT, EVENT_IS_SET };
extern const struct history_model event_model;

#endif
