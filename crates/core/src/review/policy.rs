//! How a collection's items are reviewed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ReviewState;
use crate::lease::check_lease_ms;
use crate::name::ReviewerId;
use crate::priority::{Rule, Weights};
use crate::refusal::{Refusal, Refused};

/// The most reviewers of a roster.
pub const ROSTER_MAX: usize = 1_000;
/// The longest time in which a decision can be taken back: a day.
const UNDO_SECONDS_MAX: f64 = 86_400.0;
const SLA_HOURS: std::ops::RangeInclusive<f64> = 0.01..=8_760.0;
const RETRIES_MAX: u32 = 1_000;

/// The order in which reviews are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The oldest first.
    Fifo,
    /// The highest priority first.
    #[default]
    Priority,
    /// The nearest deadline first.
    Deadline,
}

impl Strategy {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Priority => "priority",
            Self::Deadline => "deadline",
        }
    }
}

/// How reviews find their reviewers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// Reviewers take them.
    #[default]
    Pull,
    /// They are given to the one with the fewest.
    Auto,
}

/// How a collection's items are reviewed. Written as on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReviewPolicy {
    /// Whether items that arrive finished are reviewed.
    pub enabled: bool,
    /// Hours from the beginning of a review to its deadline.
    pub sla_hours: f64,
    /// The order in which reviews are offered.
    pub strategy: Strategy,
    /// How long a reviewer holds a review without a sign of life.
    pub lease_seconds: f64,
    /// How reviews find their reviewers.
    pub assignment: Assignment,
    /// The reviewers who take part; none for whoever may review for the tenant.
    pub roster: Option<Vec<ReviewerId>>,
    /// How much each part counts in a priority.
    pub weights: Option<Weights>,
    /// How often a review may come back unfinished before a lead has to look at it; none for any number.
    pub max_retries: Option<u32>,
    /// For how long a reviewer can take the own decision back.
    pub undo_seconds: f64,
}

impl Default for ReviewPolicy {
    fn default() -> Self {
        Self {
            enabled: false,
            sla_hours: 24.0,
            strategy: Strategy::default(),
            lease_seconds: 1_800.0,
            assignment: Assignment::default(),
            roster: None,
            weights: None,
            max_retries: None,
            undo_seconds: 10.0,
        }
    }
}

impl ReviewPolicy {
    /// The policy in a collection's settings.
    pub fn of_settings(settings: &Value) -> Refused<Self> {
        match settings.get("review") {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(review) => {
                Self::deserialize(review).map_err(|error| Refusal::invalid("review", error.to_string()))
            }
        }
    }

    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Refused<()> {
        if !SLA_HOURS.contains(&self.sla_hours) {
            let problem = format!("must be from {} to {}", SLA_HOURS.start(), SLA_HOURS.end());
            return Err(Refusal::invalid("slaHours", problem));
        }
        check_lease_ms("leaseSeconds", self.lease_ms())?;
        if !(0.0..=UNDO_SECONDS_MAX).contains(&self.undo_seconds) {
            let problem = format!("must be from 0 to {UNDO_SECONDS_MAX}");
            return Err(Refusal::invalid("undoSeconds", problem));
        }
        if self.max_retries.is_some_and(|retries| retries > RETRIES_MAX) {
            let problem = format!("must be from 0 to {RETRIES_MAX}");
            return Err(Refusal::invalid("maxRetries", problem));
        }
        let roster = self.roster.as_deref().unwrap_or_default();
        if roster.len() > ROSTER_MAX {
            return Err(Refusal::invalid(
                "roster",
                format!("at most {ROSTER_MAX} are taken"),
            ));
        }
        let mut seen = std::collections::HashSet::with_capacity(roster.len());
        for (index, reviewer) in roster.iter().enumerate() {
            if !seen.insert(reviewer) {
                let problem = format!("'{reviewer}' is named twice");
                return Err(Refusal::invalid(format!("roster[{index}]"), problem));
            }
        }
        self.weights.map_or(Ok(()), |weights| {
            weights.check().map_err(|refusal| refusal.under("weights"))
        })
    }

    /// How its scores are computed.
    pub fn rule(&self) -> Rule {
        Rule {
            weights: self.weights.unwrap_or_default(),
            sla_ms: whole_ms(self.sla_hours * 3_600.0),
        }
    }

    /// How long a reviewer holds a review without a sign of life.
    pub fn lease_ms(&self) -> i64 {
        whole_ms(self.lease_seconds)
    }

    /// For how long a decision can be taken back.
    pub fn undo_ms(&self) -> i64 {
        whole_ms(self.undo_seconds)
    }

    /// Whether this reviewer takes part.
    pub fn admits(&self, reviewer: &ReviewerId) -> bool {
        self.roster
            .as_ref()
            .is_none_or(|roster| roster.contains(reviewer))
    }

    /// What becomes of a review that came back unfinished so often.
    pub fn after_return(&self, retry_count: u32) -> ReviewState {
        match self.max_retries {
            Some(most) if retry_count > most => ReviewState::Failed,
            _ => ReviewState::Pending,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a conversion to i64 stops at its ends"
)]
fn whole_ms(seconds: f64) -> i64 {
    (seconds * 1_000.0).round() as i64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_is_read_from_settings_and_checked() {
        let read = |review: Value| ReviewPolicy::of_settings(&json!({ "review": review }));
        assert_eq!(ReviewPolicy::of_settings(&json!({})), Ok(ReviewPolicy::default()));
        let policy = read(json!({ "slaHours": 2, "roster": ["ann"], "maxRetries": 1 })).unwrap();
        assert_eq!((policy.rule().sla_ms, policy.lease_ms()), (7_200_000, 1_800_000));
        assert!(policy.check().is_ok());
        assert_eq!(
            [0, 1, 2].map(|count| policy.after_return(count)),
            [ReviewState::Pending, ReviewState::Pending, ReviewState::Failed]
        );
        for bad in [
            json!({ "slaHours": 0 }),
            json!({ "leaseSeconds": 0 }),
            json!({ "undoSeconds": -1 }),
            json!({ "maxRetries": 1_001 }),
            json!({ "roster": ["ann", "ann"] }),
            json!({ "weights": { "value": 101 } }),
        ] {
            assert!(read(bad.clone()).unwrap().check().is_err(), "{bad}");
        }
        assert!(read(json!({ "roster": ["a b"] })).is_err());
    }
}
