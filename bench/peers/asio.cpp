// What Boost.Asio has of the operations of bench/micro.c: C++20 coroutines on one io_context, and messages between threads.
#include <utility>

#include <algorithm>
#include <boost/asio.hpp>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace asio = boost::asio;
using asio::awaitable;

static constexpr int rounds = 9, spawns = 300000, yields = 1000000, messages = 1000000;

static double now()
{
    return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

static awaitable<void> nothing()
{
    co_return;
}

static awaitable<void> join_children(double *result)
{
    double start = now();
    for (int i = 0; i < spawns; i++)
        co_await nothing();
    *result = (now() - start) / spawns;
}

static awaitable<void> join_spawned(double *result)
{
    auto executor = co_await asio::this_coro::executor;
    double start = now();
    for (int i = 0; i < spawns; i++)
        co_await asio::co_spawn(executor, nothing(), asio::use_awaitable);
    *result = (now() - start) / spawns;
}

static awaitable<void> yielder()
{
    for (int i = 0; i < yields; i++)
        co_await asio::post(asio::use_awaitable);
}

static double run_one(awaitable<void> (*task)(double *))
{
    asio::io_context context(1);
    double result = 0;
    asio::co_spawn(context, task(&result), asio::detached);
    context.run();
    return result;
}

static double call_child()
{
    return run_one(join_children);
}

static double spawn_join()
{
    return run_one(join_spawned);
}

static double yield_two()
{
    asio::io_context context(1);
    asio::co_spawn(context, yielder(), asio::detached);
    asio::co_spawn(context, yielder(), asio::detached);
    double start = now();
    context.run();
    return (now() - start) / (2.0 * yields);
}

static double posts()
{
    asio::io_context context;
    auto guard = asio::make_work_guard(context);
    int received = 0;
    std::thread thread([&] { context.run(); });
    double start = now();
    for (int i = 0; i < messages; i++)
        asio::post(context, [&] {
            if (++received == messages)
                guard.reset();
        });
    thread.join();
    return (now() - start) / messages;
}

static void measure(const char *name, double (*round)())
{
    std::vector<double> results;
    round();
    for (int i = 0; i < rounds; i++)
        results.push_back(round());
    std::sort(results.begin(), results.end());
    std::printf("%-46s %8.1f   (%.1f to %.1f)\n", name, results[rounds / 2], results[0], results[rounds - 1]);
}

int main()
{
    measure("yield between 2 coroutines", yield_two);
    measure("await a child coroutine", call_child);
    measure("spawn + join, coroutine", spawn_join);
    measure("messages from thread to loop", posts);
}
