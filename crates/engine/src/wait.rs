//! Waiting for work. A hint wakes one who waits; whoever gets something wakes the next, so that a thousand waiting workers cost
//! no more than the jobs there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_core::id::PipelineKey;
use docket_store::Hint;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};

/// This often one who waits for a pipeline looks without a hint, should one have been lost.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Bells = Arc<Mutex<HashMap<PipelineKey, Arc<Notify>>>>;

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
                        Ok(Hint::Ready(pipeline)) => ring(&bells, Some(pipeline)),
                        Ok(Hint::Logged | Hint::Following) => {}
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

    /// What rings when a job of the pipeline may be ready.
    pub(crate) fn bell(&self, pipeline: PipelineKey) -> Arc<Notify> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(bells.entry(pipeline).or_default())
    }
}

fn ring(bells: &Bells, pipeline: Option<PipelineKey>) {
    let bells = bells.lock().unwrap_or_else(PoisonError::into_inner);
    match pipeline {
        Some(pipeline) => bells
            .get(&pipeline)
            .into_iter()
            .for_each(|bell| bell.notify_one()),
        None => bells.values().for_each(|bell| bell.notify_one()),
    }
}
