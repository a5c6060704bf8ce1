//! Coalescing: single calls that arrive while a statement is under way ride in the next one. No timer, so nobody waits for
//! company; the busier the server, the larger the batches.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};

use crate::error::{Error, Result};
use crate::store::BoxFuture;

/// A batch takes no further call once it weighs this much.
const WEIGHT_MAX: usize = 1_000;
/// A batch up to this weight is over in a few milliseconds, so that waiting for it pays.
const SHORT_MAX: usize = 64;
/// How many calls may wait; further callers wait for a place.
const QUEUE_MAX: usize = 4_096;

type Run<C, A> = dyn Fn(Vec<C>) -> BoxFuture<'static, Result<Vec<A>>> + Send + Sync;

/// Gathers calls into batches.
pub struct Coalescer<C, A> {
    queue: mpsc::Sender<(C, oneshot::Sender<Result<A>>)>,
}

impl<C, A> std::fmt::Debug for Coalescer<C, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Coalescer")
    }
}

impl<C: Clone + Send + 'static, A: Send + 'static> Coalescer<C, A> {
    /// Starts `runners` tasks that each run one batch at a time; `name` is for the metrics. `weigh` says how many entries a call has; `run` answers for
    /// every call of its batch, in order.
    pub fn start(
        name: &'static str,
        runners: usize,
        weigh: fn(&C) -> usize,
        run: impl Fn(Vec<C>) -> BoxFuture<'static, Result<Vec<A>>> + Send + Sync + 'static,
    ) -> Self {
        let (queue, calls) = mpsc::channel(QUEUE_MAX);
        let calls = Arc::new(Mutex::new(calls));
        let run: Arc<Run<C, A>> = Arc::new(run);
        let underway = Arc::<Underway>::default();
        for _ in 0..runners.max(1) {
            tokio::spawn(serve(
                name,
                Arc::clone(&calls),
                Arc::clone(&underway),
                weigh,
                Arc::clone(&run),
            ));
        }
        Self { queue }
    }

    /// Makes a call and waits for its answer.
    pub async fn call(&self, call: C) -> Result<A> {
        let (reply, answer) = oneshot::channel();
        self.queue.send((call, reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

type Calls<C, A> = Arc<Mutex<mpsc::Receiver<(C, oneshot::Sender<Result<A>>)>>>;

/// What the runners of a coalescer know of each other.
#[derive(Default)]
struct Underway {
    /// The weight of the batches that run now.
    weight: AtomicUsize,
    ended: Notify,
}

impl Underway {
    /// Whether a batch of this weight does better to wait for the one that runs: that one is short and no smaller, so it
    /// ends soon, and two statements for what one could do cost more than the wait.
    fn is_worth_waiting_for(&self, weight: usize) -> bool {
        let running = self.weight.load(Ordering::SeqCst);
        weight <= running && running <= SHORT_MAX
    }
}

/// Waits for a call and takes what has queued up behind it; nothing when nobody can call any more.
async fn next_batch<C, A>(
    calls: &Calls<C, A>,
    underway: &Underway,
    weigh: fn(&C) -> usize,
) -> (Vec<(C, oneshot::Sender<Result<A>>)>, usize) {
    let mut calls = calls.lock().await;
    let Some(first) = calls.recv().await else {
        return (Vec::new(), 0);
    };
    let mut weight = weigh(&first.0);
    let mut batch = vec![first];
    loop {
        let ended = underway.ended.notified();
        while weight < WEIGHT_MAX
            && let Ok(next) = calls.try_recv()
        {
            weight += weigh(&next.0);
            batch.push(next);
        }
        if !underway.is_worth_waiting_for(weight) {
            break;
        }
        tokio::select! {
            () = ended => {}
            next = calls.recv() => match next {
                Some(next) => {
                    weight += weigh(&next.0);
                    batch.push(next);
                }
                None => break,
            },
        }
    }
    underway.weight.fetch_add(weight, Ordering::SeqCst);
    (batch, weight)
}

async fn serve<C: Clone + Send + 'static, A: Send + 'static>(
    name: &'static str,
    calls: Calls<C, A>,
    underway: Arc<Underway>,
    weigh: fn(&C) -> usize,
    run: Arc<Run<C, A>>,
) {
    loop {
        let (batch, weight) = next_batch(&calls, &underway, weigh).await;
        if batch.is_empty() {
            return;
        }
        crate::meter::batch(name, weight);
        run_batch(batch, &*run).await;
        underway.weight.fetch_sub(weight, Ordering::SeqCst);
        underway.ended.notify_one();
    }
}

/// Runs a batch and answers each of its calls. A panic is its calls' misfortune and not the runner's end.
async fn run_batch<C: Clone + Send + 'static, A: Send + 'static>(
    batch: Vec<(C, oneshot::Sender<Result<A>>)>,
    run: &Run<C, A>,
) {
    let (calls, replies): (Vec<C>, Vec<_>) = batch.into_iter().unzip();
    match guarded(run, calls.clone()).await {
        Ok(answers) => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                // A caller that no longer waits is no concern of the others.
                reply.send(Ok(answer)).ok();
            }
        }
        Err(error) if calls.len() == 1 => {
            if let Some(reply) = replies.into_iter().next() {
                reply.send(Err(error)).ok();
            }
        }
        // The database's trouble and no call's: the others would fare no better, or have been carried out already.
        Err(error) if error.is_everybodys() => {
            for reply in replies {
                reply.send(Err(error.for_another())).ok();
            }
        }
        // One call may have spoilt the batch: run each by itself, so that it spoils only its own.
        Err(_) => {
            for (call, reply) in calls.into_iter().zip(replies) {
                let answer = guarded(run, vec![call]).await.map(|mut answers| answers.pop());
                reply
                    .send(answer.and_then(|answer| answer.ok_or(Error::Closed)))
                    .ok();
            }
        }
    }
}

async fn guarded<C, A>(run: &Run<C, A>, calls: Vec<C>) -> Result<Vec<A>> {
    AssertUnwindSafe(run(calls))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Error::Open("the operation panicked".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_that_arrive_together_ride_together() {
        let batches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&batches);
        let coalescer = Arc::new(Coalescer::start(
            "test",
            1,
            |_| 1,
            move |calls: Vec<u32>| {
                counted.fetch_add(1, Ordering::SeqCst);
                Box::pin(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    Ok(calls.into_iter().map(|n| n * 2).collect())
                })
            },
        ));
        let calls: Vec<_> = (0..100)
            .map(|n| {
                let coalescer = Arc::clone(&coalescer);
                tokio::spawn(async move { coalescer.call(n).await.unwrap() })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap() as usize, n * 2);
        }
        assert!(batches.load(Ordering::SeqCst) < 10);
    }

    #[tokio::test]
    async fn what_may_have_happened_is_not_tried_again() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let coalescer = Arc::new(Coalescer::start(
            "test",
            1,
            |_| 1,
            move |calls: Vec<u32>| {
                counted.fetch_add(calls.len(), Ordering::SeqCst);
                Box::pin(async move {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    Err::<Vec<u32>, _>(Error::UnknownCommit { operation: "test" })
                })
            },
        ));
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let coalescer = Arc::clone(&coalescer);
                tokio::spawn(async move { coalescer.call(n).await })
            })
            .collect();
        for call in calls {
            let said = call.await.unwrap();
            assert!(
                matches!(said, Err(Error::UnknownCommit { operation: "test" })),
                "{said:?}"
            );
        }
        assert_eq!(runs.load(Ordering::SeqCst), 20);
    }

    #[tokio::test]
    async fn a_call_that_fails_spoils_only_its_own() {
        let coalescer = Arc::new(Coalescer::start(
            "test",
            1,
            |_| 1,
            |calls: Vec<u32>| {
                Box::pin(async move {
                    tokio::task::yield_now().await;
                    if calls.contains(&7) {
                        Err(Error::Open("seven".into()))
                    } else {
                        Ok(calls)
                    }
                })
            },
        ));
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let coalescer = Arc::clone(&coalescer);
                tokio::spawn(async move { coalescer.call(n).await })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().is_ok(), n != 7, "{n}");
        }
    }
}
