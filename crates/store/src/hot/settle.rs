//! Settle: ends a hold, one way or another. Completing, failing, releasing, reaping, cancelling and the end of a wait are all
//! this one operation: the hold goes or changes its kind, the job is written, its lane's counts follow, the log and the
//! counters tell of it. A hold that is not the one expected is left alone, and the entry reported as lost.

use docket_core::Timestamp;
use docket_core::id::{ItemId, LaneKey, PipelineKey, Seq};
use docket_core::job::JobState;
use docket_core::lane::HoldKind;
use docket_core::lease::LeaseToken;
use docket_core::log::Action;

use crate::error::Result;
use crate::tx::{Driver, Tx};

/// What becomes of the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleTo {
    /// It ends; so does the job, in the state given.
    Gone(JobState),
    /// The job goes back to its place.
    Front,
    /// The job waits until then.
    Delayed(Timestamp),
}

impl SettleTo {
    pub(super) const fn kind_code(self) -> i64 {
        match self {
            Self::Gone(_) => 0,
            Self::Front => HoldKind::Front.code(),
            Self::Delayed(_) => HoldKind::Delayed.code(),
        }
    }

    pub(super) const fn state(self) -> JobState {
        match self {
            Self::Gone(state) => state,
            Self::Front | Self::Delayed(_) => JobState::Live,
        }
    }

    pub(super) const fn until_ms(self) -> i64 {
        match self {
            Self::Delayed(until) => until.ms(),
            Self::Gone(_) | Self::Front => 0,
        }
    }
}

/// What a finished job hands over, as JSON text.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Output {
    pub result: Option<String>,
    pub fields: Option<String>,
    pub display_payload: Option<String>,
    pub line_item_count: Option<i64>,
    pub total_amount: Option<f64>,
}

impl Output {
    /// How much of it is written.
    pub fn bytes(&self) -> usize {
        let texts = [&self.result, &self.fields, &self.display_payload];
        texts.into_iter().flatten().map(String::len).sum()
    }
}

/// One hold to settle.
#[derive(Clone, Debug)]
pub struct Settle {
    /// The job's lane.
    pub lane: LaneKey,
    /// Its place there.
    pub seq: Seq,
    /// The hold must have this token,
    pub token: LeaseToken,
    /// and be of this kind.
    pub from: HoldKind,
    /// What becomes of it.
    pub to: SettleTo,
    /// Attempts behind the job from now on; none for as many as before.
    pub retry_count: Option<u32>,
    /// What went wrong; none leaves what was said before, except that a completed job has no error.
    pub error: Option<String>,
    /// Where it went wrong.
    pub failed_step: Option<String>,
    /// What was made.
    pub output: Output,
    /// What the log says happened; none for nothing worth an entry.
    pub action: Option<Action>,
    /// Who did it; none for the holder.
    pub actor: Option<String>,
    /// More for the log, as JSON text; none for the attempt and its length.
    pub details: Option<String>,
}

/// A hold that was settled.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// Which of the entries.
    pub index: usize,
    /// The item that was worked on.
    pub item: ItemId,
    /// Whether its job is completed and a review follows.
    pub to_review: bool,
}

/// What was settled, and what may happen next.
#[derive(Clone, Debug, Default)]
pub struct Settlement {
    /// The holds that were as expected.
    pub settled: Vec<Settled>,
    /// Pipelines of which a lane can start a job now.
    pub ready: Vec<PipelineKey>,
}

/// Settles the holds that are as expected; those missing in the answer were not.
pub async fn settle(tx: &mut Tx, entries: &[Settle], now: Timestamp) -> Result<Settlement> {
    if entries.is_empty() {
        return Ok(Settlement::default());
    }
    match tx.driver {
        Driver::Postgres(_) => super::postgres::settle::settle(tx, entries, now).await,
        Driver::Sqlite(_) => super::sqlite::settle::settle(tx, entries, now).await,
    }
}
