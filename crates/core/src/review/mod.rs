//! Reviews: their states, a collection's policy for them, in whose hands they are, and what may be decided (rules V1 to V17).

mod decision;
mod hand;
mod policy;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, Refused};

pub use decision::{FieldCorrection, REASON_MAX, check_decision, check_reason};
pub use hand::Hand;
pub use policy::{Assignment, ROSTER_MAX, ReviewPolicy, Strategy};

/// The most reviews of one call.
pub const REVIEWS_MAX: usize = 200;

/// The state of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    /// Waits for a reviewer.
    Pending,
    /// In a reviewer's hands.
    InReview,
    /// Decided: as it is.
    Approved,
    /// Decided: with corrections.
    Corrected,
    /// Decided: no.
    Rejected,
    /// Came back too often; a lead has to look at it.
    Failed,
    /// Not needed any more.
    Cancelled,
}

impl ReviewState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::InReview,
        Self::Approved,
        Self::Corrected,
        Self::Rejected,
        Self::Failed,
        Self::Cancelled,
    ];

    /// As it is stored.
    pub const fn code(self) -> i64 {
        match self {
            Self::Pending => 0,
            Self::InReview => 1,
            Self::Approved => 2,
            Self::Corrected => 3,
            Self::Rejected => 4,
            Self::Failed => 5,
            Self::Cancelled => 6,
        }
    }

    /// Read back.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InReview => "in_review",
            Self::Approved => "approved",
            Self::Corrected => "corrected",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Refused<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| {
                let problem =
                    "must be pending, in_review, approved, corrected, rejected, failed or cancelled";
                Refusal::invalid("status", problem)
            })
    }

    /// Whether somebody has decided.
    pub const fn is_decided(self) -> bool {
        matches!(self, Self::Approved | Self::Corrected | Self::Rejected)
    }

    /// Whether it waits for a decision, or for a lead who looks at it.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::InReview | Self::Failed)
    }
}

impl fmt::Display for ReviewState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a reviewer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it is.
    Approved,
    /// With corrections.
    Corrected,
    /// No.
    Rejected,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Approved, Self::Corrected, Self::Rejected];

    /// The outcome of this word; `accepted` is an older one for `approved`.
    pub fn parse(word: &str) -> Refused<Self> {
        match word {
            "approved" | "accepted" => Ok(Self::Approved),
            "corrected" => Ok(Self::Corrected),
            "rejected" => Ok(Self::Rejected),
            _ => Err(Refusal::invalid(
                "outcome",
                "must be approved, corrected or rejected",
            )),
        }
    }

    /// What the review then is.
    pub const fn state(self) -> ReviewState {
        match self {
            Self::Approved => ReviewState::Approved,
            Self::Corrected => ReviewState::Corrected,
            Self::Rejected => ReviewState::Rejected,
        }
    }

    /// The outcome that led to a state.
    pub fn of(state: ReviewState) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.state() == state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back_from_code_and_word() {
        for state in ReviewState::ALL {
            assert_eq!(ReviewState::from_code(state.code()), Some(state));
            assert_eq!(ReviewState::parse(state.as_str()), Ok(state));
        }
        assert!(ReviewState::parse("maybe").is_err());
    }

    #[test]
    fn an_outcome_is_one_of_three_words_or_the_older_one() {
        assert_eq!(Outcome::parse("accepted"), Ok(Outcome::Approved));
        assert_eq!(Outcome::parse("rejected"), Ok(Outcome::Rejected));
        for word in ["maybe", "", "Approved", "pending"] {
            assert_eq!(
                Outcome::parse(word).unwrap_err().code(),
                "validation_failed",
                "{word}"
            );
        }
    }
}
