/* All kinds of acts. A new one goes at the end: programs of a seed stay what they are as long as
 * the weights do. */
#include "program.h"

extern const struct act_kind act_channel, act_stream, act_handover, act_offload, act_outside,
    act_straggler, act_lock, act_topic, act_event, act_latest, act_waker, act_datagram, act_file,
    act_tree;

const struct act_kind *const act_kinds[] = {
    &act_channel,   &act_stream,   &act_handover, &act_offload, &act_outside,
    &act_straggler, &act_lock,     &act_topic,    &act_event,   &act_latest,
    &act_waker,     &act_datagram, &act_file,     &act_tree,    NULL};
