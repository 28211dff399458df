// The same operations as bench/micro.c, on Tokio.
// Arguments: [ROUNDS [WHAT]]: only what has WHAT in its name
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, Mutex};
use tokio::task::JoinHandle;

fn argument(index: usize) -> String {
    std::env::args().nth(index).unwrap_or_default()
}

fn measure<F: Future<Output = f64>>(name: &str, runtime: &Runtime, round: impl Fn() -> F) {
    let rounds: usize = argument(1).parse().unwrap_or(9);
    if !name.contains(&argument(2)) {
        return;
    }
    let mut results: Vec<f64> = Vec::new();
    runtime.block_on(round());
    for _ in 0..rounds {
        results.push(runtime.block_on(round()));
    }
    results.sort_by(|a, b| a.partial_cmp(b).unwrap());
    println!("{:<46} {:8.1}   ({:.1} to {:.1})", name, results[rounds / 2], results[0], results[rounds - 1]);
}

// A runtime of one thread, on a thread of its own. Tasks of one runtime mostly run one after the
// other on one thread; a task of each of two such runtimes cannot.
fn runtime_apart() -> Handle {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
}

fn per(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

async fn yield_two() -> f64 {
    const YIELDS: u64 = 1000000;
    let yielder = || async {
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
    };
    let start = Instant::now();
    let (a, b) = (tokio::spawn(yielder()), tokio::spawn(yielder()));
    a.await.unwrap();
    b.await.unwrap();
    per(start, 2 * YIELDS)
}

async fn spawn_join() -> f64 {
    const SPAWNS: u64 = 300000;
    let task = tokio::spawn(async {
        let start = Instant::now();
        for _ in 0..SPAWNS {
            tokio::spawn(async {}).await.unwrap();
        }
        per(start, SPAWNS)
    });
    task.await.unwrap()
}

async fn round_trip(here: Handle, other_side: Handle) -> f64 {
    const TRIPS: u64 = 100000;
    let task = here.spawn(async move {
        let (there, mut other) = mpsc::channel::<u64>(1);
        let (answer, mut back) = mpsc::channel::<u64>(1);
        other_side.spawn(async move {
            while let Some(item) = other.recv().await {
                answer.send(item).await.unwrap();
            }
        });
        let start = Instant::now();
        for i in 0..TRIPS {
            there.send(i).await.unwrap();
            back.recv().await.unwrap();
        }
        per(start, TRIPS)
    });
    task.await.unwrap()
}

async fn select_round_trip() -> f64 {
    const TRIPS: u64 = 100000;
    async fn receive(from: &mut mpsc::Receiver<u64>) -> Option<u64> {
        tokio::select! {
            item = from.recv() => item,
            _ = tokio::time::sleep(Duration::from_secs(30)) => None,
        }
    }
    let task = tokio::spawn(async {
        let (there, mut other) = mpsc::channel::<u64>(1);
        let (answer, mut back) = mpsc::channel::<u64>(1);
        tokio::spawn(async move {
            while let Some(item) = receive(&mut other).await {
                answer.send(item).await.unwrap();
            }
        });
        let start = Instant::now();
        for i in 0..TRIPS {
            there.send(i).await.unwrap();
            receive(&mut back).await.unwrap();
        }
        per(start, TRIPS)
    });
    task.await.unwrap()
}

async fn stream(capacity: usize, here: Handle, other_side: Handle) -> f64 {
    const MESSAGES: u64 = 1000000;
    let task = here.spawn(async move {
        let (sender, mut receiver) = mpsc::channel::<u64>(capacity);
        let drain = other_side.spawn(async move { while receiver.recv().await.is_some() {} });
        let start = Instant::now();
        for i in 0..MESSAGES {
            sender.send(i).await.unwrap();
        }
        drop(sender);
        drain.await.unwrap();
        per(start, MESSAGES)
    });
    task.await.unwrap()
}

async fn mutex_free() -> f64 {
    const LOCKS: u64 = 1000000;
    let mutex = Mutex::new(0u64);
    let start = Instant::now();
    for _ in 0..LOCKS {
        *mutex.lock().await += 1;
    }
    per(start, LOCKS)
}

static MADE: AtomicU64 = AtomicU64::new(0);

fn count_call(_: usize) {
    MADE.store(MADE.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

const POSTS: u64 = 1000000;

fn take_posts(other_side: Handle) -> (mpsc::UnboundedSender<(fn(usize), usize)>, JoinHandle<()>) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(fn(usize), usize)>();
    let taker = other_side.spawn(async move {
        while let Some((call, argument)) = receiver.recv().await {
            call(argument);
        }
    });
    (sender, taker)
}

// Calls that a task of another thread makes.
async fn posts(here: Handle, other_side: Handle) -> f64 {
    let task = here.spawn(async move {
        let (sender, taker) = take_posts(other_side);
        let start = Instant::now();
        for _ in 0..POSTS {
            sender.send((count_call, 0)).unwrap();
        }
        drop(sender);
        taker.await.unwrap();
        per(start, POSTS)
    });
    task.await.unwrap()
}

// The same, from a thread that is none of a runtime's.
async fn thread_posts(other_side: Handle) -> f64 {
    let start = Instant::now();
    let (sender, taker) = take_posts(other_side);
    std::thread::spawn(move || {
        for _ in 0..POSTS {
            sender.send((count_call, 0)).unwrap();
        }
    });
    taker.await.unwrap();
    per(start, POSTS)
}

async fn mutex_contended(here: Handle, other_side: Handle) -> f64 {
    const LOCKS: u64 = 1000000;
    let mutex = Arc::new(Mutex::new(0u64));
    let count = |mutex: Arc<Mutex<u64>>| async move {
        for _ in 0..LOCKS {
            *mutex.lock().await += 1;
        }
    };
    let start = Instant::now();
    let (a, b) = (here.spawn(count(mutex.clone())), other_side.spawn(count(mutex.clone())));
    a.await.unwrap();
    b.await.unwrap();
    per(start, 2 * LOCKS)
}

fn main() {
    let one = Builder::new_current_thread().enable_time().build().unwrap();
    measure("yield between 2 tasks", &one, yield_two);
    measure("spawn + join", &one, spawn_join);
    let on_one = || one.handle().clone();
    measure("channel round trip", &one, || round_trip(on_one(), on_one()));
    measure("channel round trip by select {channel, time}", &one, select_round_trip);
    measure("channel stream, 16 slots", &one, || stream(16, on_one(), on_one()));
    measure("mutex, free", &one, mutex_free);
    let two = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let on_two = || two.handle().clone();
    measure("channel round trip, two threads", &two, || round_trip(on_two(), on_two()));
    measure("channel stream, two threads, 1024 slots", &two, || stream(1024, on_two(), on_two()));
    measure("posts, two threads", &two, || posts(on_two(), on_two()));
    measure("mutex contended by two threads", &two, || mutex_contended(on_two(), on_two()));
    let (a, b) = (runtime_apart(), runtime_apart());
    let here = || a.clone();
    let other_side = || b.clone();
    measure("channel round trip, apart", &one, || round_trip(here(), other_side()));
    measure("channel stream, apart, 1024 slots", &one, || stream(1024, here(), other_side()));
    measure("posts, apart", &one, || posts(here(), other_side()));
    measure("posts from a thread, apart", &one, || thread_posts(other_side()));
    measure("mutex contended, apart", &one, || mutex_contended(here(), other_side()));
}
