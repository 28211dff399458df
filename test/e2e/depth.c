/* Resumes a leaf under so many awaits, so many times: for counting instructions. Usage: probe_depth
 * AWAITS RESUMES */
#include <coir.h>
#include <stdlib.h>

struct frame {
    coir_future future;
    struct frame *callee;
    coir_future turn;
    int left;
};

static coir_future *frame_poll(coir_future *future)
{
    struct frame *self = coir_frame(future, struct frame);
    COIR_BEGIN(future);
    if (self->callee) {
        COIR_AWAIT(future, &self->callee->future);
        COIR_END(future);
    }
    while (self->left-- > 0)
        COIR_AWAIT(future, coir_yield_op(&self->turn));
    COIR_END(future);
}

static const coir_future_kind frame_kind = COIR_FUTURE_KIND("frame", frame_poll, NULL);

int main(int argc, char **argv)
{
    int depth = argc > 2 ? atoi(argv[1]) : 1;
    struct frame *frames = depth > 0 ? calloc((size_t)depth, sizeof *frames) : NULL;
    if (!frames)
        return 1;
    for (int i = 0; i < depth; i++) {
        coir_future_init(&frames[i].future, &frame_kind);
        frames[i].callee = i + 1 < depth ? &frames[i + 1] : NULL;
    }
    frames[depth - 1].left = atoi(argv[2]);
    int rc = (int)coir_block_on(NULL, &frames[0].future);
    free(frames);
    return rc < 0;
}
