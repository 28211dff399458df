/* coir: coroutines, I/O, runtime. Everything but the web layer, which is coir/web.h, and the
 * simulator, coir/sim.h. */
#ifndef COIR_H
#define COIR_H

#include <coir/base.h>
#include <coir/buffer.h>
#include <coir/channel.h>
#include <coir/deadline.h>
#include <coir/descriptor.h>
#include <coir/dir.h>
#include <coir/dump.h>
#include <coir/event.h>
#include <coir/fiber.h>
#include <coir/file.h>
#include <coir/filter.h>
#include <coir/future.h>
#include <coir/generator.h>
#include <coir/latest.h>
#include <coir/loop.h>
#include <coir/loop_tcp.h>
#include <coir/metrics.h>
#include <coir/mutex.h>
#include <coir/name.h>
#include <coir/offload.h>
#include <coir/poller.h>
#include <coir/process.h>
#include <coir/reader.h>
#include <coir/recorder.h>
#include <coir/runtime.h>
#include <coir/scope.h>
#include <coir/select.h>
#include <coir/semaphore.h>
#include <coir/signal.h>
#include <coir/socket.h>
#include <coir/stream.h>
#include <coir/tcp.h>
#include <coir/terminal.h>
#include <coir/topic.h>
#include <coir/topic_tree.h>
#include <coir/trace.h>
#include <coir/udp.h>
#include <coir/unix.h>
#include <coir/version.h>
#include <coir/waker.h>
#include <coir/watcher.h>
#include <coir/write_queue.h>

#endif
