//! Coalescing: single calls that arrive while a statement is under way ride in the next one. No timer, so nobody waits for
//! company; the busier the server, the larger the batches.

use std::ops::AddAssign;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::error::{Error, Result};
use crate::store::BoxFuture;

/// A batch takes no further call once it has so many entries,
const ENTRIES_MAX: usize = 1_000;
/// or so many bytes.
const BYTES_MAX: usize = 8 << 20;
/// A batch up to this size is over in a few milliseconds, so that waiting for it pays where the next one does the same,
const SHORT_MAX: usize = 64;
/// and one up to this size for whatever the next one does,
const VERY_SHORT_MAX: usize = 32;
/// but not for longer than this: it may be waiting itself, for somebody's lock.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// How many calls may wait; further callers wait for a place.
const QUEUE_MAX: usize = 4_096;

type Run<C, A> = dyn Fn(Vec<C>) -> BoxFuture<'static, Result<Vec<A>>> + Send + Sync;

/// What a call brings into its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Its entries.
    pub entries: usize,
    /// What they hold, where that can be much.
    pub bytes: usize,
}

impl Weight {
    /// So many small entries.
    pub const fn of(entries: usize) -> Self {
        Self { entries, bytes: 0 }
    }

    const fn is_full(self) -> bool {
        self.entries >= ENTRIES_MAX || self.bytes >= BYTES_MAX
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }
}

/// Lets very short batches of several coalescers run one at a time. Most of what such a batch costs the database is the same for one entry
/// and for twenty, so while one runs the others gather more.
#[derive(Clone, Debug)]
pub struct Turns(Option<Arc<Semaphore>>);

impl Turns {
    /// One at a time.
    pub fn one_at_a_time() -> Self {
        Self(Some(Arc::new(Semaphore::new(1))))
    }

    /// Any number at a time: for a database whose writer gathers by itself.
    pub const fn any() -> Self {
        Self(None)
    }

    /// Waits for one's turn.
    async fn next(&self) -> Option<OwnedSemaphorePermit> {
        let turns = Arc::clone(self.0.as_ref()?);
        turns.acquire_owned().await.ok()
    }
}

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

/// What the runners of a coalescer know of each other.
struct Underway {
    /// The entries of the batches that run now.
    entries: AtomicUsize,
    ended: Notify,
    /// Shared with other coalescers.
    turns: Turns,
}

impl Underway {
    fn new(turns: Turns) -> Self {
        Self {
            entries: AtomicUsize::new(0),
            ended: Notify::new(),
            turns,
        }
    }

    /// Whether a batch of so many entries does better to wait for the one that runs: that one is short, so it ends soon, and two statements
    /// for what one could do cost more than the wait. Where the writer gathers by itself, only one that is no smaller is worth it.
    fn is_worth_waiting_for(&self, entries: usize) -> bool {
        let running = self.entries.load(Ordering::SeqCst);
        let least = match self.turns.0 {
            Some(_) => 1,
            None => entries,
        };
        (least..=SHORT_MAX).contains(&running)
    }
}

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

/// Waits for a call and takes what has queued up behind it; nothing when nobody can call any more. The batch runs from now on; as long as
/// its turn is kept, no other very short one does.
async fn next_batch<C, A>(
    queue: &Calls<C, A>,
    underway: &Underway,
    weigh: fn(&C) -> Weight,
) -> Option<(Batch<C, A>, Option<OwnedSemaphorePermit>)> {
    let mut queue = queue.lock().await;
    let first = queue.recv().await?;
    let mut batch = Batch {
        calls: Vec::new(),
        weight: Weight::default(),
        weigh,
    };
    batch.add(first);
    let waited = tokio::time::sleep(WAIT_MAX);
    tokio::pin!(waited);
    // The turn comes first: who has it and waits for its own kind keeps the others gathering, too.
    let turn = tokio::select! {
        turn = underway.turns.next() => turn,
        () = &mut waited => None,
    };
    loop {
        let ended = underway.ended.notified();
        batch.gather(&mut queue);
        if batch.weight.is_full() || !underway.is_worth_waiting_for(batch.weight.entries) {
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
    underway.entries.fetch_add(batch.weight.entries, Ordering::SeqCst);
    let turn = turn.filter(|_| batch.weight.entries <= VERY_SHORT_MAX);
    Some((batch, turn))
}

async fn serve<C: Clone + Send + 'static, A: Send + 'static>(
    name: &'static str,
    queue: Calls<C, A>,
    underway: Arc<Underway>,
    weigh: fn(&C) -> Weight,
    run: Arc<Run<C, A>>,
) {
    while let Some((batch, turn)) = next_batch(&queue, &underway, weigh).await {
        let entries = batch.weight.entries;
        crate::meter::batch(name, entries);
        run_batch(batch.calls, &*run).await;
        drop(turn);
        underway.entries.fetch_sub(entries, Ordering::SeqCst);
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
    use tokio::task::JoinHandle;

    use super::*;

    #[tokio::test]
    async fn calls_that_arrive_together_ride_together() {
        let batches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&batches);
        let coalescer = Arc::new(Coalescer::start(
            "test",
            1,
            Turns::any(),
            |_| Weight::of(1),
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

    const STUCK: usize = 0;

    /// A coalescer of two runners whose calls are answered with the size of their batch; where one of them is stuck, once somebody opens
    /// the gate.
    fn gated(gate: &Arc<Notify>, turns: &Turns, weigh: fn(&usize) -> Weight) -> Arc<Coalescer<usize, usize>> {
        let gate = Arc::clone(gate);
        Arc::new(Coalescer::start(
            "test",
            2,
            turns.clone(),
            weigh,
            move |calls: Vec<usize>| {
                let gate = Arc::clone(&gate);
                Box::pin(async move {
                    if calls.contains(&STUCK) {
                        gate.notified().await;
                    }
                    Ok(vec![calls.len(); calls.len()])
                })
            },
        ))
    }

    async fn begun(coalescer: &Arc<Coalescer<usize, usize>>, call: usize) -> JoinHandle<usize> {
        let coalescer = Arc::clone(coalescer);
        let call = tokio::spawn(async move { coalescer.call(call).await.unwrap() });
        tokio::time::sleep(Duration::from_millis(1)).await;
        call
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_waits_for_a_short_one_but_not_for_one_that_is_stuck() {
        let gate = Arc::new(Notify::new());
        let coalescer = gated(&gate, &Turns::one_at_a_time(), |_| Weight::of(1));
        let stuck = begun(&coalescer, STUCK).await;
        let (second, third) = (begun(&coalescer, 1).await, begun(&coalescer, 1).await);
        assert!(!second.is_finished(), "it waits for the one that runs");
        assert_eq!((second.await.unwrap(), third.await.unwrap()), (2, 2));
        assert!(!stuck.is_finished());
        gate.notify_one();
        assert_eq!(stuck.await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn very_short_batches_of_all_kinds_take_turns_but_no_other_batch_is_in_their_way() {
        let (gate, turns) = (Arc::new(Notify::new()), Turns::one_at_a_time());
        let (one, other) = (
            gated(&gate, &turns, |_| Weight::of(1)),
            gated(&gate, &turns, |_| Weight::of(1)),
        );
        let stuck = begun(&one, STUCK).await;
        let (first, second) = (begun(&other, 1).await, begun(&other, 2).await);
        assert!(!first.is_finished(), "it waits for the other kind");
        gate.notify_one();
        assert_eq!(stuck.await.unwrap(), 1);
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (2, 2));

        // One that takes long is not waited for any longer, and gives its turn back all the same.
        let stuck = begun(&one, STUCK).await;
        assert_eq!(begun(&other, 1).await.await.unwrap(), 1);
        assert!(!stuck.is_finished());
        gate.notify_one();
        stuck.await.unwrap();

        // A large one leaves its turn to the others while it runs.
        let large = gated(&gate, &turns, |_| Weight::of(VERY_SHORT_MAX + 1));
        let stuck = begun(&large, STUCK).await;
        assert_eq!(turns.0.as_ref().unwrap().available_permits(), 1);
        gate.notify_one();
        stuck.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_ends_with_its_bytes_as_with_its_entries() {
        let gate = Arc::new(Notify::new());
        let weigh = |bytes: &usize| Weight {
            entries: 1,
            bytes: *bytes,
        };
        let coalescer = gated(&gate, &Turns::one_at_a_time(), weigh);
        let mut calls = vec![begun(&coalescer, STUCK).await];
        for _ in 0..5 {
            calls.push(begun(&coalescer, BYTES_MAX / 2).await);
        }
        gate.notify_one();
        let mut sizes = Vec::new();
        for call in calls {
            sizes.push(call.await.unwrap());
        }
        assert_eq!(sizes, [1, 2, 2, 2, 2, 1]);
    }

    #[tokio::test]
    async fn what_may_have_happened_is_not_tried_again() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let coalescer = Arc::new(Coalescer::start(
            "test",
            1,
            Turns::any(),
            |_| Weight::of(1),
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
            Turns::any(),
            |_| Weight::of(1),
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
