//! Hints that there may be work: fired after a commit, taken by whoever waits. The tables are the truth; a lost hint costs
//! time and never correctness.

use docket_core::id::PipelineKey;
use tokio::sync::{broadcast, mpsc};

const KEPT: usize = 1_024;

/// What may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// A job of this pipeline may be ready.
    Ready(PipelineKey),
    /// Hints may have been lost; look at everything.
    Anything,
}

/// Sends and receives hints, here and, on PostgreSQL, in the other servers.
#[derive(Clone, Debug)]
pub struct Hints {
    here: broadcast::Sender<Hint>,
    elsewhere: mpsc::Sender<Hint>,
}

impl Hints {
    /// The hints of one store, and the stream of those that other servers should get.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Hint>) {
        let (elsewhere, outgoing) = mpsc::channel(KEPT);
        (
            Self {
                here: broadcast::Sender::new(KEPT),
                elsewhere,
            },
            outgoing,
        )
    }

    /// Tells everybody.
    pub fn send(&self, hint: Hint) {
        // No receiver is fine: nobody waits.
        self.here.send(hint).ok();
        // Nobody takes them on SQLite, where there is no other server; and while the database is away, those that do not fit are lost.
        self.elsewhere.try_send(hint).ok();
    }

    /// The way to those in this process.
    pub(crate) fn here(&self) -> broadcast::Sender<Hint> {
        self.here.clone()
    }

    /// The hints from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Hint> {
        self.here.subscribe()
    }
}
