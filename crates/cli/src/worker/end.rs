//! How a command ends, and what that means for its job.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use docket_client::worker::{Completion, Failure, Outcome, Stop};

use super::answer::{Answer, AnswerFailure, Given, read_answer};

/// The exit code that says that no attempt will do better: `EX_DATAERR` of sysexits.h.
pub(crate) const DATA_ERROR: i32 = 65;

/// How a process came to its end.
#[derive(Debug)]
pub(crate) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// We ended it: the lease is lost, or the worker ends.
    Stopped(Stop),
    /// We ended it: it took too long.
    TimedOut(Duration),
    /// We ended it: a step was refused.
    StepRefused(String),
    /// We cannot say.
    Unknown(std::io::Error),
}

impl End {
    /// Whether an attempt that ended so may do better the next time.
    fn is_retryable(&self) -> bool {
        match self {
            Self::Exited(status) => status.code() != Some(DATA_ERROR),
            Self::StepRefused(_) => false,
            Self::Stopped(_) | Self::TimedOut(_) | Self::Unknown(_) => true,
        }
    }

    /// The end in words.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("the command ended with exit code {code}"),
                (None, Some(signal)) => format!("the command was killed by signal {signal}"),
                (None, None) => "the command ended".to_owned(),
            },
            Self::Stopped(Stop::LeaseLost) => "the command was stopped, as its lease is lost".to_owned(),
            Self::Stopped(Stop::Shutdown) => "the command was stopped, as the worker ends".to_owned(),
            Self::TimedOut(limit) => {
                format!(
                    "the command took longer than {} seconds and was stopped",
                    limit.as_secs_f64()
                )
            }
            Self::StepRefused(problem) => problem.clone(),
            Self::Unknown(error) => format!("the command's end could not be waited for: {error}"),
        }
    }

    /// What a command of one job has made of it, by the way it ended and what it said.
    pub(crate) fn outcome(&self, said: Option<Given>, last_error: Option<String>) -> Outcome {
        let status = match self {
            Self::Stopped(_) => return Outcome::Released,
            Self::Exited(status) => status,
            Self::TimedOut(_) | Self::StepRefused(_) | Self::Unknown(_) => return self.failure(None, None),
        };
        match (status.success(), said.map(|said| said.and_then(read_answer))) {
            (true, None) => Outcome::completed(None),
            (true, Some(Ok(answer))) => outcome_of(answer),
            (true, Some(Err(problem))) => Outcome::failed(problem),
            (false, Some(Ok(answer))) => self.failure(answer.failure, last_error),
            (false, _) => self.failure(None, last_error),
        }
    }

    /// The failure of a job whose command ended so, without having answered for it.
    pub(crate) fn failure(&self, said: Option<AnswerFailure>, last_error: Option<String>) -> Outcome {
        if let Some(said) = said {
            return Outcome::Failed(Failure {
                retryable: self.is_retryable() && said.retryable.unwrap_or(true),
                error: said.error,
                step: said.step,
            });
        }
        let was_killed = matches!(self, Self::Exited(status) if status.code().is_none());
        let error = match last_error {
            Some(last) if was_killed => format!("{}; it last said: {last}", self.in_words()),
            Some(last) => last,
            None => self.in_words(),
        };
        Outcome::Failed(Failure {
            error,
            step: None,
            retryable: self.is_retryable(),
        })
    }
}

/// What an answer says, when nothing else speaks against it.
pub(crate) fn outcome_of(answer: Answer) -> Outcome {
    if let Some(failure) = answer.failure {
        return Outcome::Failed(Failure {
            error: failure.error,
            step: failure.step,
            retryable: failure.retryable.unwrap_or(true),
        });
    }
    Outcome::Completed(Box::new(Completion {
        result: answer.result,
        fields: answer.fields,
        display_payload: answer.display_payload,
        line_item_count: answer.line_item_count,
        total_amount: answer.total_amount,
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(code: i32) -> End {
        End::Exited(ExitStatus::from_raw(code << 8))
    }

    fn killed(signal: i32) -> End {
        End::Exited(ExitStatus::from_raw(signal))
    }

    fn failed(outcome: Outcome) -> (String, bool) {
        match outcome {
            Outcome::Failed(failure) => (failure.error, failure.retryable),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_exit_code_decides() {
        let last = || Some("no total found".to_owned());
        assert!(matches!(ended(0).outcome(None, last()), Outcome::Completed(_)));
        assert_eq!(
            failed(ended(1).outcome(None, last())),
            ("no total found".to_owned(), true)
        );
        assert_eq!(
            failed(ended(65).outcome(None, last())),
            ("no total found".to_owned(), false)
        );
        let bare = failed(ended(3).outcome(None, None));
        assert_eq!(bare, ("the command ended with exit code 3".to_owned(), true));
        let killed = failed(killed(9).outcome(None, last()));
        assert_eq!(
            killed,
            (
                "the command was killed by signal 9; it last said: no total found".to_owned(),
                true
            )
        );
    }

    #[test]
    fn an_error_in_the_answer_stands_before_the_last_line_of_standard_error() {
        let said = Some(Ok(json!({ "error": "torn page" })));
        let (error, retryable) = failed(ended(65).outcome(said.clone(), Some("noise".to_owned())));
        assert_eq!((error.as_str(), retryable), ("torn page", false));
        let (error, retryable) = failed(ended(0).outcome(said, None));
        assert_eq!((error.as_str(), retryable), ("torn page", true));
        let final_no = Some(Ok(json!({ "error": "torn page", "retryable": false })));
        assert!(!failed(ended(1).outcome(final_no, None)).1);
        // An answer that cannot be kept is why a success is none; a command that failed has a reason of its own.
        let not_kept = Some(Err("cannot be kept".to_owned()));
        assert_eq!(
            failed(ended(0).outcome(not_kept.clone(), None)).0,
            "cannot be kept"
        );
        let own = Some("no total found".to_owned());
        assert_eq!(failed(ended(1).outcome(not_kept, own)).0, "no total found");
    }

    #[test]
    fn what_was_stopped_is_handed_back_and_what_took_too_long_has_failed() {
        assert!(matches!(
            End::Stopped(Stop::Shutdown).outcome(None, None),
            Outcome::Released
        ));
        let (error, retryable) = failed(End::TimedOut(Duration::from_secs(2)).outcome(None, None));
        assert_eq!(
            (error.as_str(), retryable),
            ("the command took longer than 2 seconds and was stopped", true)
        );
    }
}
