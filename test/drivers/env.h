/* What a suite for every driver works with. Each case gets a driver, a way to let time pass, a
 * listener and a connected pair. */
#ifndef TEST_DRIVERS_ENV_H
#define TEST_DRIVERS_ENV_H

#include "driver/driver.h"
#include "harness.h"
#include "sim/world.h"

struct env {
    const char *name; /* of the driver */
    struct ci_driver *driver;
    struct ci_world *world; /* NULL: a real one */
    coir_fd listener, client, server;
};
extern struct env env;
extern uint32_t serial; /* the listener's */

struct counted {
    struct ci_op op;
    int done;
};

void pass(void);
bool start(struct counted *counted, struct ci_op op);
int finish(struct counted *counted);
int stop(struct counted *counted);
int run(struct ci_op op);
int read_some(coir_fd fd, void *buf, size_t len);
int write_some(coir_fd fd, const void *data, size_t len);
size_t write_until_full(coir_fd fd, struct counted *waiting);
/* Fills also the room that a busy kernel makes when a write has begun to wait. */
void fill_up(coir_fd fd);
int wait_events(coir_fd fd, int events);
void close_fd(coir_fd fd);
int accept_one(void);

/* True: the operation completes by itself, sooner than any delay that driver.h allows would end. */
bool completes_soon(const struct counted *counted);

/* Starts a read and cancels it: on io_uring a receive is under way from then on. */
void cancel_a_read(coir_fd fd);
void read_all(coir_fd fd, size_t len);
void write_all(coir_fd fd, size_t len);
struct sockaddr_storage listener_address(void);
void make_pair(void);
void close_pair(void);
void listen_anywhere(void);

/* A crowd of streams that are not read takes all buffers that a driver has; then a new
 * pair is made. crowd_out closes the crowd. On real drivers. */
void crowd_in(void);
void crowd_out(void);
/* a second driver of the same kind; real ones alone */
void open_another(struct ci_driver **ret_driver);
void on_driver(const char *name, void (*body)(void));

#define ON(driver, name, body)    \
    TEST(driver##_##name)         \
    {                             \
        on_driver(#driver, body); \
    }

#if defined(CONFORM_KERNEL) /* the real drivers, over the simulated kernel */
#define ON_KQUEUE(name, body) ON(kqueue, name, body)
#define ON_SIM(name, body)
enum { RACES = 2000 }; /* from each of three seeds (test/kernel/run.c) */
#else
#define ON_KQUEUE(name, body)
#define ON_SIM(name, body) ON(sim, name, body)
enum { RACES = 10000 };
#endif
#define ON_SELECTORS(name, body) ON(epoll, name, body) ON(poll, name, body) ON_KQUEUE(name, body)
#define ON_REAL(name, body) ON(io_uring, name, body) ON_SELECTORS(name, body)

#define CONFORM(name)              \
    static void name##_body(void); \
    ON_REAL(name, name##_body)     \
    ON_SIM(name, name##_body)      \
    static void name##_body(void)

#endif
