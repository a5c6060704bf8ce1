//! Waiting for work. A hint wakes one who waits; whoever gets something wakes the next, so that a thousand waiting workers cost
//! no more than the jobs there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_core::id::{CollectionKey, PipelineKey};
use docket_store::Hint;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};

/// This often one of those who wait for the same looks without a hint, should one have been lost.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Awaited {
    /// A job of a pipeline.
    Job(PipelineKey),
    /// A review of a collection.
    Review(CollectionKey),
}

type Bells = Arc<Mutex<HashMap<Awaited, Arc<Notify>>>>;

pub(crate) struct Waiters {
    bells: Bells,
    dismissed: watch::Sender<bool>,
}

impl Waiters {
    /// Starts passing hints on; ends when the store is gone.
    pub(crate) fn start(mut hints: Receiver<Hint>) -> Self {
        let bells = Bells::default();
        let waiters = Self {
            bells: Arc::clone(&bells),
            dismissed: watch::Sender::new(false),
        };
        tokio::spawn(async move {
            let mut look = tokio::time::interval(LOOK_EVERY);
            loop {
                tokio::select! {
                    hint = hints.recv() => match hint {
                        Ok(Hint::Ready(pipeline)) => ring(&bells, Some(Awaited::Job(pipeline))),
                        Ok(Hint::Review(collection)) => ring(&bells, Some(Awaited::Review(collection))),
                        Ok(Hint::Delivery | Hint::Logged | Hint::Following) => {}
                        Ok(Hint::Anything) | Err(RecvError::Lagged(_)) => ring(&bells, None),
                        Err(RecvError::Closed) => return,
                    },
                    _ = look.tick() => ring(&bells, None),
                }
            }
        });
        waiters
    }

    /// Nobody is to wait any more.
    pub(crate) fn dismiss(&self) {
        self.dismissed.send_replace(true);
    }

    /// Whether nobody is to wait any more.
    pub(crate) fn are_dismissed(&self) -> bool {
        *self.dismissed.borrow()
    }

    /// Lasts until nobody is to wait any more.
    pub(crate) async fn dismissed(&self) {
        let mut dismissed = self.dismissed.subscribe();
        // The sender lives as long as `self`.
        dismissed.wait_for(|dismissed| *dismissed).await.ok();
    }

    /// It may be there: wakes one who waits for it, without a detour through the hints.
    pub(crate) fn ring(&self, awaited: Awaited) {
        ring(&self.bells, Some(awaited));
    }

    /// What rings when it may be there.
    pub(crate) fn bell(&self, awaited: Awaited) -> Arc<Notify> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bells.entry(awaited).or_default())
    }
}

fn ring(bells: &Bells, awaited: Option<Awaited>) {
    let bells = bells.lock().unwrap_or_else(PoisonError::into_inner);
    match awaited {
        Some(awaited) => bells.get(&awaited).into_iter().for_each(|bell| bell.notify_one()),
        None => bells.values().for_each(|bell| bell.notify_one()),
    }
}
