//! The state-machine test of reviews: a small model of the desk beside the real engine.
//!
//! Built as the model of processing is ([`model`](crate::model)): plain vectors and the rules of the contract, random operations on both, every
//! answer compared, everything that can be looked at compared now and then, and a run that differs shortened.
//!
//! * [`op`]: the operations and how they are drawn;
//! * [`state`]: what the model remembers;
//! * `intake`, `order`, `hands`, `decide`: the rules;
//! * [`run`], `calls`: one case on the engine and on the model;
//! * `check`: what is compared besides the answers.

mod calls;
mod check;
mod decide;
mod hands;
mod intake;
pub mod op;
mod order;
pub mod run;
pub mod state;

/// A rule of the model made wrong on purpose, to see whether the test would notice an engine that gets it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Whoever holds a review may decide with any token (against V9).
    TokenNotChecked,
    /// Who held a review may decide though the lease ran out (against V9).
    ExpiryNotChecked,
    /// The least urgent review comes first (against V5).
    OrderReversed,
    /// The deadline does not count (against V2).
    DeadlineForgotten,
    /// What a reviewer passed over is offered again (against V12).
    SkipForgotten,
    /// What was corrected stays locked when the decision is taken back (against V17).
    UndoKeepsLocks,
    /// A lease that runs out is not counted (against V13).
    RetryNotCounted,
    /// A reassigned review keeps its token (against V7).
    ReassignKeepsToken,
    /// Reviewers hold as many as they like (against V14).
    CapacityIgnored,
    /// Ties go to the same reviewer every time (against V14).
    TiesNotInTurn,
    /// What one gives back may come to the same again (against V14).
    BackToTheSame,
    /// A new run forgets what people corrected (against V11).
    LocksForgotten,
}
