//! Coalescing: single calls that arrive while a statement is under way ride in the next one. Nobody waits for company that has not come;
//! the busier the server, the larger the batches.

mod turn;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, mpsc, oneshot};

use self::turn::{Awaited, Underway, VERY_SHORT_MAX, WAIT_MAX};
pub use self::turn::{Turns, Weight};
use crate::error::{Error, Result};
use crate::store::BoxFuture;

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
    /// Starts `runners` tasks that each run one batch at a time; `name` is for the metrics. `weigh` says what a call brings along; `run` answers for
    /// every call of its batch, in order.
    pub fn start(
        name: &'static str,
        runners: usize,
        turns: Turns,
        weigh: fn(&C) -> Weight,
        run: impl Fn(Vec<C>) -> BoxFuture<'static, Result<Vec<A>>> + Send + Sync + 'static,
    ) -> Self {
        let (queue, calls) = mpsc::channel(QUEUE_MAX);
        let calls = Arc::new(Mutex::new(calls));
        let run: Arc<Run<C, A>> = Arc::new(run);
        let underway = Arc::new(Underway::new(turns));
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

/// Calls that ride together.
struct Batch<C, A> {
    calls: Vec<(C, oneshot::Sender<Result<A>>)>,
    weight: Weight,
    weigh: fn(&C) -> Weight,
}

impl<C, A> Batch<C, A> {
    fn add(&mut self, call: (C, oneshot::Sender<Result<A>>)) {
        self.weight += (self.weigh)(&call.0);
        self.calls.push(call);
    }

    /// Takes what has queued up.
    fn gather(&mut self, queue: &mut mpsc::Receiver<(C, oneshot::Sender<Result<A>>)>) {
        while !self.weight.is_full()
            && let Ok(next) = queue.try_recv()
        {
            self.add(next);
        }
    }
}

/// Waits for a call and takes what has queued up behind it; nothing when nobody can call any more. The batch counts as running.
async fn next_batch<'a, C, A>(
    queue: &Calls<C, A>,
    underway: &'a Underway,
    weigh: fn(&C) -> Weight,
) -> Option<(Batch<C, A>, Awaited<'a>)> {
    let mut queue = queue.lock().await;
    let first = queue.recv().await?;
    let mut batch = Batch {
        calls: Vec::new(),
        weight: Weight::default(),
        weigh,
    };
    batch.add(first);
    batch.gather(&mut queue);
    let waited = tokio::time::sleep(WAIT_MAX);
    tokio::pin!(waited);
    // The turn comes first: who has it and waits for its own kind keeps the others gathering, too.
    let turn = match batch.weight.length() <= VERY_SHORT_MAX {
        true => tokio::select! {
            turn = underway.turns.next() => turn,
            () = &mut waited => None,
        },
        false => None,
    };
    loop {
        let ended = underway.ended.notified();
        batch.gather(&mut queue);
        if batch.weight.is_full() || !underway.is_worth_waiting_for(batch.weight.length()) {
            break;
        }
        tokio::select! {
            () = ended => {}
            () = &mut waited => break,
            next = queue.recv() => match next {
                Some(next) => batch.add(next),
                None => break,
            },
        }
    }
    let awaited = underway.begin(batch.weight, turn);
    Some((batch, awaited))
}

async fn serve<C: Clone + Send + 'static, A: Send + 'static>(
    name: &'static str,
    queue: Calls<C, A>,
    underway: Arc<Underway>,
    weigh: fn(&C) -> Weight,
    run: Arc<Run<C, A>>,
) {
    while let Some((batch, awaited)) = next_batch(&queue, &underway, weigh).await {
        crate::meter::batch(name, batch.weight.entries);
        let running = run_batch(batch.calls, &*run);
        tokio::pin!(running);
        if tokio::time::timeout(WAIT_MAX, &mut running).await.is_err() {
            drop(awaited);
            running.await;
        }
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
        .unwrap_or_else(|_| Err(Error::panicked()))
}

#[cfg(test)]
mod tests;
