// The same operations as bench/micro.c, on Tokio.
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, Mutex};

const ROUNDS: usize = 9;

fn measure<F: Future<Output = f64>>(name: &str, runtime: &Runtime, round: impl Fn() -> F) {
    let mut results: Vec<f64> = Vec::new();
    runtime.block_on(round());
    for _ in 0..ROUNDS {
        results.push(runtime.block_on(round()));
    }
    results.sort_by(|a, b| a.partial_cmp(b).unwrap());
    println!("{:<46} {:8.1}   ({:.1} to {:.1})", name, results[ROUNDS / 2], results[0], results[ROUNDS - 1]);
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

async fn round_trip() -> f64 {
    const TRIPS: u64 = 250000;
    let task = tokio::spawn(async {
        let (there, mut other) = mpsc::channel::<u64>(1);
        let (answer, mut back) = mpsc::channel::<u64>(1);
        tokio::spawn(async move {
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

async fn stream(capacity: usize) -> f64 {
    const MESSAGES: u64 = 1000000;
    let task = tokio::spawn(async move {
        let (sender, mut receiver) = mpsc::channel::<u64>(capacity);
        let drain = tokio::spawn(async move { while receiver.recv().await.is_some() {} });
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

async fn mutex_contended() -> f64 {
    const LOCKS: u64 = 1000000;
    let mutex = Arc::new(Mutex::new(0u64));
    let count = |mutex: Arc<Mutex<u64>>| async move {
        for _ in 0..LOCKS {
            *mutex.lock().await += 1;
        }
    };
    let start = Instant::now();
    let (a, b) = (tokio::spawn(count(mutex.clone())), tokio::spawn(count(mutex.clone())));
    a.await.unwrap();
    b.await.unwrap();
    per(start, 2 * LOCKS)
}

fn main() {
    let one = Builder::new_current_thread().enable_time().build().unwrap();
    measure("yield between 2 tasks", &one, yield_two);
    measure("spawn + join", &one, spawn_join);
    measure("channel round trip", &one, round_trip);
    measure("channel round trip by select {channel, time}", &one, select_round_trip);
    measure("channel stream, 16 slots", &one, || stream(16));
    measure("mutex, free", &one, mutex_free);
    let two = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    measure("channel round trip, two threads", &two, round_trip);
    measure("channel stream, two threads, 1024 slots", &two, || stream(1024));
    measure("mutex contended by two threads", &two, mutex_contended);
}
