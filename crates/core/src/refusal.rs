//! Why Docket says no. A refusal is an outcome, never a failure of the system: nothing was changed,
//! and the text says what to do.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::item::ItemStatus;
use crate::review::ReviewState;

/// Short for a result that may be refused.
pub type Refused<T> = Result<T, Refusal>;

/// A typed no. [`Refusal::code`] is stable and part of the wire contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    /// What was named does not exist, or belongs to another tenant (which looks the same from outside).
    #[error("there is no {what} '{id}'")]
    NotFound {
        /// The kind of thing, in Docket's words.
        what: Cow<'static, str>,
        /// As the caller wrote it.
        id: String,
    },
    /// The request itself is wrong.
    #[error("{path}: {problem}")]
    Invalid {
        /// Where in the request.
        path: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// Larger than Docket takes.
    #[error("{what} has {size} bytes; at most {limit} are taken")]
    TooLarge {
        /// What is too large.
        what: Cow<'static, str>,
        /// Its size in bytes.
        size: u64,
        /// The largest size taken.
        limit: u64,
    },
    /// The tenant's submissions of the last hour are used up (rule I2).
    #[error("Upload limit reached. Please try again later.")]
    RateLimited {
        /// Submissions allowed in a rolling hour.
        limit: u64,
        /// Milliseconds until the next one is free.
        wait_ms: i64,
    },
    /// The externalId is taken by other content (rule I5).
    #[error(
        "externalId '{external_id}' already names other content in this collection; \
         submit it as the next version, or use another id"
    )]
    ExternalIdConflict {
        /// The id in question.
        external_id: String,
    },
    /// The lease's token is not the present one (rule P5).
    #[error("the lease is no longer held: it ran out, was released, or the work was settled or cancelled")]
    LeaseLost,
    /// Somebody else holds the review (rule V6).
    #[error("{assigned_to} holds this review")]
    AlreadyClaimed {
        /// Who holds it.
        assigned_to: String,
        /// Until when, unless they ask for more.
        lease_expires_at: Timestamp,
    },
    /// The review is decided, or not needed any more (rule V9).
    #[error(
        "this review is {state} already; a decision can be taken back by its reviewer, for a short while"
    )]
    AlreadyDecided {
        /// What it is.
        state: ReviewState,
    },
    /// Nothing of it is given out now (rule P13).
    #[error("{what} is paused; it goes on when an operator lifts the pause")]
    Paused {
        /// What is paused, with its name.
        what: String,
    },
    /// Only a failed item can be retried (rule P9).
    #[error("only a failed item can be retried; this one is {status}")]
    NotFailed {
        /// What the item is instead.
        status: ItemStatus,
    },
    /// A rerun needs a higher version (rule N3).
    #[error(
        "version {wanted} of '{changelist_id}' is not higher than {highest}, which a notification was made for; \
         what was not told of that one can be resent"
    )]
    ReviewVersionNotHigher {
        /// What it is about.
        changelist_id: String,
        /// The version that was asked for.
        wanted: i64,
        /// The highest one there is.
        highest: i64,
    },
    /// The present state does not allow it.
    #[error("{problem}")]
    Conflict {
        /// What stands in the way.
        problem: String,
    },
    /// The upload took longer than its reservation lasts.
    #[error("the upload took longer than its place is kept for it; send the file again")]
    UploadExpired {
        /// When its reservation ended.
        expired_at: Timestamp,
    },
}

impl Refusal {
    /// The stable code that programs branch on.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Invalid { .. } => "validation_failed",
            Self::TooLarge { .. } => "payload_too_large",
            Self::RateLimited { .. } => "rate_limited",
            Self::ExternalIdConflict { .. } => "external_id_conflict",
            Self::LeaseLost => "lease_lost",
            Self::AlreadyClaimed { .. } => "already_claimed",
            Self::AlreadyDecided { .. } => "already_decided",
            Self::Paused { .. } => "paused",
            Self::NotFailed { .. } => "not_failed",
            Self::ReviewVersionNotHigher { .. } => "review_version_not_higher",
            Self::Conflict { .. } | Self::UploadExpired { .. } => "conflict",
        }
    }

    /// The request is wrong at `path`.
    pub fn invalid(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            path: path.into(),
            problem: problem.into(),
        }
    }

    /// There is no such thing.
    pub fn not_found(what: &'static str, id: &(impl ToString + ?Sized)) -> Self {
        Self::NotFound {
            what: Cow::Borrowed(what),
            id: id.to_string(),
        }
    }

    /// The same refusal, its path put below `parent` (`items[3]` and `payload` give `items[3].payload`); an empty path is the parent.
    #[must_use]
    pub fn under(self, parent: &str) -> Self {
        match self {
            Self::Invalid { path, problem } => Self::Invalid {
                path: match path.as_str() {
                    "" => parent.to_owned(),
                    path => format!("{parent}.{path}"),
                },
                problem,
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_speaks_in_the_words_of_the_contract() {
        let refusal = Refusal::RateLimited {
            limit: 10,
            wait_ms: 5,
        };
        assert_eq!(
            refusal.to_string(),
            "Upload limit reached. Please try again later."
        );
        assert_eq!(refusal.code(), "rate_limited");
    }

    #[test]
    fn a_path_grows_from_the_outside() {
        let refusal = Refusal::invalid("payload", "must not be empty").under("items[3]");
        assert_eq!(refusal.to_string(), "items[3].payload: must not be empty");
    }
}
