//! Jobs: what becomes of one when its worker fails or falls silent (rules P6 and P7).

use std::fmt;

use crate::clock::{Timestamp, duration_in_words};
use crate::pipeline::{OnStale, Pipeline};
use crate::random::Random;
use crate::refusal::{Refusal, Refused};

/// The longest error message kept, in characters; what is longer is cut.
pub const ERROR_MAX: usize = 10_000;

/// The state of a job as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobStatus {
    /// Waits, in the tail, at the front or for its next attempt.
    Pending,
    /// A worker has it.
    Processing,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Taken back.
    Cancelled,
}

impl JobStatus {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a job's row says: still alive (its hold tells the rest), or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Pending or processing.
    Live,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Taken back.
    Cancelled,
}

impl JobState {
    /// The number it is stored as.
    pub const fn code(self) -> i64 {
        match self {
            Self::Live => 0,
            Self::Completed => 2,
            Self::Failed => 3,
            Self::Cancelled => 5,
        }
    }

    /// The state of this number.
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::Live),
            2 => Some(Self::Completed),
            3 => Some(Self::Failed),
            5 => Some(Self::Cancelled),
            _ => None,
        }
    }

    /// The state as people see it.
    pub const fn status(self, leased: bool) -> JobStatus {
        match self {
            Self::Live if leased => JobStatus::Processing,
            Self::Live => JobStatus::Pending,
            Self::Completed => JobStatus::Completed,
            Self::Failed => JobStatus::Failed,
            Self::Cancelled => JobStatus::Cancelled,
        }
    }
}

/// What a worker says of an attempt that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In the worker's words.
    pub error: String,
    /// The step that failed.
    pub step: Option<String>,
    /// Whether another attempt could help.
    pub retryable: bool,
}

impl Failure {
    /// The message that is kept: "Step 2 failed: …" where a step is named.
    pub fn message(&self, pipeline: &Pipeline) -> Refused<String> {
        crate::content::check_no_nul("error", &self.error)?;
        let error: String = self.error.chars().take(ERROR_MAX).collect();
        let Some(step) = &self.step else { return Ok(error) };
        let number = pipeline
            .step_number(step)
            .ok_or_else(|| Refusal::invalid("step", format!("the pipeline has no step '{step}'")))?;
        Ok(format!("Step {number} failed: {error}"))
    }
}

/// What becomes of a job after an attempt that did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is given up.
    Fail,
    /// It goes back to its place at once, with this many retries behind it.
    Requeue {
        /// Attempts behind it.
        retry_count: u32,
    },
    /// It goes back to its place after a wait.
    RetryAt {
        /// When it may be started again.
        run_at: Timestamp,
        /// Attempts behind it.
        retry_count: u32,
    },
}

/// After a failure that its worker reported (rule P7).
pub fn after_failure(
    pipeline: &Pipeline,
    retry_count: u32,
    retryable: bool,
    now: Timestamp,
    random: &dyn Random,
) -> Verdict {
    let retry_count = retry_count + 1;
    if !retryable || retry_count >= pipeline.max_attempts {
        return Verdict::Fail;
    }
    Verdict::RetryAt {
        run_at: now.plus_ms(pipeline.backoff.wait_ms(retry_count, random)),
        retry_count,
    }
}

/// After a lease that ran out (rule P6).
pub fn after_stale(pipeline: &Pipeline, retry_count: u32) -> Verdict {
    let retry_count = retry_count + 1;
    match pipeline.on_stale {
        OnStale::Requeue if retry_count < pipeline.max_attempts => Verdict::Requeue { retry_count },
        OnStale::Requeue | OnStale::Fail => Verdict::Fail,
    }
}

/// What is said of a job whose worker fell silent: for the length of its lease, or for less where somebody did not wait that long.
pub fn stale_message(lease_ms: i64, silent_ms: i64) -> String {
    let ms = match silent_ms.min(lease_ms) {
        ms if ms == lease_ms || ms < 1_000 => ms,
        ms => ms / 1_000 * 1_000,
    };
    format!("Processing timed out after {}", duration_in_words(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::Backoff;
    use crate::name::StepName;
    use crate::random::SeededRandom;

    const NOW: Timestamp = Timestamp::from_ms(1_000);

    fn pipeline(max_attempts: u32, on_stale: OnStale) -> Pipeline {
        Pipeline {
            max_attempts,
            on_stale,
            backoff: Backoff {
                base_ms: 0,
                max_ms: 0,
            },
            ..Pipeline::default()
        }
    }

    #[test]
    fn failures_are_retried_until_the_attempts_run_out() {
        let pipeline = pipeline(3, OnStale::Fail);
        let retry = |retry_count| Verdict::RetryAt {
            run_at: NOW,
            retry_count,
        };
        for (retry_count, retryable, verdict) in [
            (0, true, retry(1)),
            (1, true, retry(2)),
            (2, true, Verdict::Fail),
            (7, true, Verdict::Fail),
            (0, false, Verdict::Fail),
        ] {
            assert_eq!(
                after_failure(&pipeline, retry_count, retryable, NOW, &SeededRandom::new(1)),
                verdict
            );
        }
    }

    #[test]
    fn stale_jobs_follow_the_pipelines_policy() {
        for (max_attempts, on_stale, retry_count, verdict) in [
            (3, OnStale::Fail, 0, Verdict::Fail),
            (3, OnStale::Requeue, 0, Verdict::Requeue { retry_count: 1 }),
            (3, OnStale::Requeue, 1, Verdict::Requeue { retry_count: 2 }),
            (3, OnStale::Requeue, 2, Verdict::Fail),
            (1, OnStale::Requeue, 0, Verdict::Fail),
        ] {
            assert_eq!(
                after_stale(&pipeline(max_attempts, on_stale), retry_count),
                verdict
            );
        }
    }

    #[test]
    fn a_failure_names_its_step_by_number() {
        let steps = ["ocr", "extract"]
            .map(|name| StepName::new(name).unwrap())
            .to_vec();
        let pipeline = Pipeline {
            steps,
            ..Pipeline::default()
        };
        let failure = |step: Option<&str>| Failure {
            error: "no text found".into(),
            step: step.map(str::to_owned),
            retryable: true,
        };
        assert_eq!(
            failure(Some("extract")).message(&pipeline).unwrap(),
            "Step 2 failed: no text found"
        );
        assert_eq!(failure(None).message(&pipeline).unwrap(), "no text found");
        assert_eq!(
            failure(Some("send")).message(&pipeline).unwrap_err().code(),
            "validation_failed"
        );
    }

    #[test]
    fn a_message_is_cut_and_never_holds_a_nul() {
        let long = Failure {
            error: "é".repeat(ERROR_MAX + 5),
            step: None,
            retryable: true,
        };
        assert_eq!(
            long.message(&Pipeline::default()).unwrap().chars().count(),
            ERROR_MAX
        );
        let nul = Failure {
            error: "a\0b".into(),
            step: None,
            retryable: true,
        };
        assert!(nul.message(&Pipeline::default()).is_err());
    }

    #[test]
    fn states_keep_their_numbers() {
        for state in [
            JobState::Live,
            JobState::Completed,
            JobState::Failed,
            JobState::Cancelled,
        ] {
            assert_eq!(JobState::from_code(state.code()), Some(state));
        }
    }

    #[test]
    fn a_silence_is_told_as_long_as_it_was() {
        for (lease_ms, silent_ms, words) in [
            (600_000, 600_000, "10 minutes"),
            (600_000, 7_200_000, "10 minutes"),
            (600_000, 90_400, "90 seconds"),
            (500, 700, "500 milliseconds"),
            (600_000, 700, "700 milliseconds"),
        ] {
            let message = format!("Processing timed out after {words}");
            assert_eq!(stale_message(lease_ms, silent_ms), message);
        }
    }
}
