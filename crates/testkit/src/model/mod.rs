//! The state-machine test: a small model of Docket beside the real engine.
//!
//! The model is a few vectors and the rules of the contract written down in the plainest way: no cursors, no counters, no SQL.
//! Random operations go to both; every answer must be the same, and every few operations everything that can be looked at
//! is compared. A run that differs is shrunk to the shortest list of operations that still does.
//!
//! * [`op`]: the operations, how they are drawn and what they refer to;
//! * [`state`]: what the model remembers;
//! * `intake`, `lane`, `work`, `settings`: the rules;
//! * [`run`], `calls`: one case, operation by operation, on the engine and on the model;
//! * `check`: what is compared besides the answers;
//! * [`search`]: many cases, the seed, the shrinking.

mod calls;
mod check;
mod intake;
mod lane;
pub mod op;
pub mod run;
pub mod search;
mod settings;
pub mod state;
mod work;

/// A rule of the model made wrong on purpose, to see whether the test would notice an engine that gets it wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Lanes run as many jobs as they like (against P2).
    NoLimit,
    /// The youngest job of a lane starts first (against P1).
    LastInFirstOut,
    /// Lanes are always served in the order in which they were made (against P3).
    NoFairness,
    /// A job keeps its first token (against P5).
    TokenNeverRises,
    /// A wait of one job holds up every lane, strict or not (against P7).
    AlwaysStrict,
    /// Submissions leave the window after half an hour (against I2).
    ShortWindow,
    /// A new run of an item forgets what people corrected (against V11).
    CorrectionsForgotten,
    /// Jobs that wait for their next attempt do not count as ahead (against P4).
    WaitingNotAhead,
}
