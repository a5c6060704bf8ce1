//! The dispatcher: takes what is due, has it sent or asked about, many at once and few to each host, and goes on when something ends, is
//! made, or falls due. It is safe on every server at the same time. When it is told to stop it waits for what is on its way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docket_core::Timestamp;
use docket_core::lease::LeaseToken;
use docket_core::notification::Step;
use docket_store::table::delivery_find;
use docket_store::{Hint, Result};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::attempt::attempt;
use super::settle::Ended;
use super::take::{Room, Taken, TakenBatch, channel_of, take_batch};
use crate::engine::Engine;

/// How many deliveries are looked at in one transaction.
const BATCH: u64 = 256;
/// This often it looks without a hint, should one have been lost.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// What one server has on its way.
struct Dispatcher {
    engine: Engine,
    in_flight: HashMap<String, usize>,
    per_channel: HashMap<String, usize>,
    /// The destination that was looked at last, where not all could be.
    after: String,
    tasks: JoinSet<()>,
    /// Which delivery each task sends to, for when it ends, however it ends.
    places: HashMap<tokio::task::Id, (String, String)>,
}

impl Dispatcher {
    fn new(engine: Engine) -> Self {
        Self {
            engine,
            in_flight: HashMap::new(),
            per_channel: HashMap::new(),
            after: String::new(),
            tasks: JoinSet::new(),
            places: HashMap::new(),
        }
    }

    fn room(&self) -> Room {
        let outbox = &self.engine.kernel.config.outbox;
        let mut channels = HashMap::new();
        for word in outbox.words() {
            let used = self.per_channel.get(word).copied().unwrap_or(0);
            if let Some(channel) = outbox.channel(word) {
                let room = outbox.per_channel.saturating_sub(used);
                channels.insert(word.to_owned(), (Arc::clone(channel), room));
            }
        }
        Room {
            channels,
            in_flight: self.in_flight.clone(),
            limit: BATCH,
            after: self.after.clone(),
        }
    }

    /// Takes what is due and starts it.
    async fn turn(&mut self) -> Result<TakenBatch> {
        let kernel = &self.engine.kernel;
        let params = (Arc::clone(kernel), self.room(), kernel.clock.now());
        let mut batch = kernel
            .store
            .run_hot("delivery_take", params, |tx, p| {
                Box::pin(take_batch(tx, &p.0, &p.1, p.2))
            })
            .await?;
        crate::meter::taken(&batch);
        self.after = std::mem::take(&mut batch.after);
        for taken in std::mem::take(&mut batch.work) {
            self.start(taken);
        }
        Ok(batch)
    }

    fn start(&mut self, taken: Taken) {
        let engine = self.engine.clone();
        let (channel, destination) = (taken.delivery.channel.clone(), taken.delivery.destination.clone());
        *self.in_flight.entry(destination.clone()).or_default() += 1;
        *self.per_channel.entry(channel.clone()).or_default() += 1;
        let task = self.tasks.spawn(work(engine, taken));
        self.places.insert(task.id(), (channel, destination));
        crate::meter::in_flight(self.places.len());
    }

    /// Waits until something on its way has ended, and then for all that has.
    async fn one_ended(&mut self) {
        let Some(ended) = self.tasks.join_next_with_id().await else {
            return std::future::pending().await;
        };
        self.forget(ended.map_or_else(|error| error.id(), |(id, ())| id));
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
    }

    fn forget(&mut self, id: tokio::task::Id) {
        let Some((channel, destination)) = self.places.remove(&id) else {
            return;
        };
        crate::meter::in_flight(self.places.len());
        for (counts, name) in [
            (&mut self.per_channel, channel),
            (&mut self.in_flight, destination),
        ] {
            if let Some(count) = counts.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&name);
                }
            }
        }
    }

    async fn all_ended(&mut self) {
        while !self.tasks.is_empty() {
            self.one_ended().await;
        }
    }
}

/// Sends or asks, and records what came of it. What cannot be recorded is in doubt when the hold ends.
async fn work(engine: Engine, taken: Taken) {
    let kernel = &engine.kernel;
    let Some(channel) = kernel.config.outbox.channel(&taken.delivery.channel).cloned() else {
        return;
    };
    let (id, lease): (_, LeaseToken) = (taken.delivery.id, taken.delivery.course.lease);
    let due = taken.due;
    let is_first = taken.step == Step::Send && taken.delivery.course.attempts == 1;
    let outcome = attempt(kernel, &channel, taken).await;
    if is_first {
        crate::meter::first_attempt(kernel.clock.now().since(due));
    }
    crate::meter::attempted(outcome.kind(), outcome.as_str());
    let settled = engine
        .batches
        .delivery_settle
        .call(Ended { id, lease, outcome })
        .await;
    match settled {
        Ok(Ok(_)) => {}
        Ok(Err(refusal)) => {
            tracing::warn!(delivery = %id, %refusal, "what came of an attempt was not recorded")
        }
        Err(error) => tracing::warn!(
            delivery = %id,
            error = &error as &dyn std::error::Error,
            "what came of an attempt was not recorded; its provider will be asked"
        ),
    }
}

/// Lasts until something may have fallen due.
async fn hinted(hints: &mut Receiver<Hint>) {
    loop {
        match hints.recv().await {
            Ok(Hint::Delivery | Hint::Anything) | Err(RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// What one round of the dispatcher did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Deliveries that were due and looked at.
    pub found: usize,
    /// Sends whose outcome had not been recorded.
    pub in_doubt: usize,
    /// Deliveries that now wait for a person.
    pub held: usize,
}

impl Engine {
    /// Takes what is due once, and waits until all of it has ended.
    pub async fn dispatcher_run_once(&self) -> Result<Dispatched> {
        let mut dispatcher = Dispatcher::new(self.clone());
        let batch = dispatcher.turn().await?;
        dispatcher.all_ended().await;
        Ok(Dispatched {
            found: batch.found,
            in_doubt: batch.in_doubt,
            held: batch.held,
        })
    }

    /// Dispatches until it is told to stop; then waits for what is on its way.
    pub(crate) async fn dispatch(self, mut stopped: watch::Receiver<bool>) {
        let mut hints = self.kernel.store.hints().subscribe();
        let mut dispatcher = Dispatcher::new(self);
        while !*stopped.borrow() {
            let (wait, has_more) = match dispatcher.turn().await {
                // There is more, and what has no room is left out the next time: nobody waits behind a busy host.
                Ok(batch) if batch.found as u64 == BATCH && batch.found > batch.left => continue,
                // Not all hosts were looked at.
                Ok(_) if !dispatcher.after.is_empty() => continue,
                Ok(batch) => (
                    dispatcher.wait(batch.until).await,
                    batch.left > 0 || batch.found > 0,
                ),
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the outbox could not be looked at"
                    );
                    (AFTER_FAILURE, false)
                }
            };
            dispatcher.rest(&mut hints, &mut stopped, wait, has_more).await;
        }
        dispatcher.all_ended().await;
    }
}

impl Dispatcher {
    /// Waits until there may be something to do.
    async fn rest(
        &mut self,
        hints: &mut Receiver<Hint>,
        stopped: &mut watch::Receiver<bool>,
        wait: Duration,
        has_more: bool,
    ) {
        let mut over = std::pin::pin!(tokio::time::sleep(wait));
        let waits_for_room = has_more || self.is_full();
        loop {
            tokio::select! {
                () = &mut over => return,
                () = hinted(hints) => return,
                _ = stopped.wait_for(|stop| *stop) => return,
                () = self.one_ended() => if waits_for_room { return },
            }
        }
    }

    /// Whether something due may have been passed over for want of room.
    fn is_full(&self) -> bool {
        let outbox = &self.engine.kernel.config.outbox;
        let is_full = |(destination, n): (&String, &usize)| *n >= outbox.room_of(channel_of(destination));
        self.in_flight.iter().any(is_full) || self.per_channel.values().any(|n| *n >= outbox.per_channel)
    }

    /// How long until the next delivery falls due after those that were looked at.
    async fn wait(&self, looked_at: Timestamp) -> Duration {
        let kernel = &self.engine.kernel;
        let due = kernel
            .store
            .read("delivery_next_due", looked_at, |tx, after| {
                Box::pin(delivery_find::next_due(tx, *after))
            })
            .await;
        let now = kernel.clock.now();
        let until = |due: Timestamp| Duration::from_millis(u64::try_from(due.since(now)).unwrap_or(0));
        match due {
            Ok(due) => due.map_or(LOOK_EVERY, until).min(LOOK_EVERY),
            Err(_) => AFTER_FAILURE,
        }
    }
}
