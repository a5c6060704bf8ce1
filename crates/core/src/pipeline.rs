//! Pipelines: how items are processed.
//!
//! A change of a pipeline makes a new version. An attempt runs by the version that was present when it was claimed,
//! to its end; the next attempt runs by the newest.

use serde::{Deserialize, Serialize};

use crate::backoff::Backoff;
use crate::lease::check_lease_ms;
use crate::name::StepName;
use crate::refusal::{Refusal, Refused};

/// The most steps of a pipeline.
pub const STEPS_MAX: usize = 64;
/// The most attempts at a job.
pub const ATTEMPTS_MAX: u32 = 100;

/// What becomes of a job whose lease ran out (rule P6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnStale {
    /// It fails, and its item with it.
    Fail,
    /// It goes back to its place, until the attempts run out.
    Requeue,
}

/// The definition of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pipeline {
    /// The named steps, in their order; none for a job that is one piece.
    pub steps: Vec<StepName>,
    /// How long a worker holds a job without a sign of life.
    pub lease_ms: i64,
    /// What becomes of a job whose lease ran out.
    pub on_stale: OnStale,
    /// How often a job is tried, the first time included.
    pub max_attempts: u32,
    /// How long a failed attempt waits.
    pub backoff: Backoff,
    /// Whether a job that waits for its next attempt holds up its lane.
    pub strict: bool,
    /// Whether a review follows.
    pub review: bool,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            lease_ms: 600_000,
            on_stale: OnStale::Requeue,
            max_attempts: 3,
            backoff: Backoff::default(),
            strict: false,
            review: false,
        }
    }
}

impl Pipeline {
    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Refused<()> {
        if self.steps.len() > STEPS_MAX {
            return Err(Refusal::invalid(
                "steps",
                format!("at most {STEPS_MAX} steps are taken"),
            ));
        }
        for (index, step) in self.steps.iter().enumerate() {
            if self.steps[..index].contains(step) {
                return Err(Refusal::invalid(
                    format!("steps[{index}]"),
                    format!("step '{step}' is named twice"),
                ));
            }
        }
        check_lease_ms("leaseSeconds", self.lease_ms)?;
        if self.max_attempts == 0 || self.max_attempts > ATTEMPTS_MAX {
            return Err(Refusal::invalid(
                "maxAttempts",
                format!("must be from 1 to {ATTEMPTS_MAX}"),
            ));
        }
        self.backoff.check()
    }

    /// The number that people give a step: 1 for the first.
    pub fn step_number(&self, name: &str) -> Option<usize> {
        self.steps
            .iter()
            .position(|step| step.as_str() == name)
            .map(|index| index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(names: &[&str]) -> Vec<StepName> {
        names.iter().map(|name| StepName::new(*name).unwrap()).collect()
    }

    #[test]
    fn a_sound_pipeline_is_taken_and_an_unsound_one_says_why() {
        let sound = Pipeline {
            steps: steps(&["ocr", "extract"]),
            ..Pipeline::default()
        };
        assert_eq!(sound.check(), Ok(()));
        let many: Vec<String> = (0..=STEPS_MAX).map(|n| format!("s{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (pipeline, path) in [
            (
                Pipeline {
                    steps: steps(&["ocr", "ocr"]),
                    ..sound.clone()
                },
                "steps[1]",
            ),
            (
                Pipeline {
                    steps: steps(&many),
                    ..sound.clone()
                },
                "steps",
            ),
            (
                Pipeline {
                    lease_ms: 0,
                    ..sound.clone()
                },
                "leaseSeconds",
            ),
            (
                Pipeline {
                    lease_ms: i64::MAX,
                    ..sound.clone()
                },
                "leaseSeconds",
            ),
            (
                Pipeline {
                    max_attempts: 0,
                    ..sound.clone()
                },
                "maxAttempts",
            ),
            (
                Pipeline {
                    max_attempts: ATTEMPTS_MAX + 1,
                    ..sound.clone()
                },
                "maxAttempts",
            ),
            (
                Pipeline {
                    backoff: Backoff {
                        base_ms: 9,
                        max_ms: 1,
                    },
                    ..sound.clone()
                },
                "backoff",
            ),
        ] {
            match pipeline.check() {
                Err(Refusal::Invalid { path: found, .. }) => assert_eq!(found, path),
                other => panic!("{path}: {other:?}"),
            }
        }
    }

    #[test]
    fn steps_are_numbered_from_one() {
        let pipeline = Pipeline {
            steps: steps(&["ocr", "extract"]),
            ..Pipeline::default()
        };
        assert_eq!(pipeline.step_number("extract"), Some(2));
        assert_eq!(pipeline.step_number("missing"), None);
    }
}
