//! Errors: RFC 9457, with a stable code.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Time;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $title:literal;)+) => {
        /// What programs branch on. Stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Its word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }

            /// The same in a few words for people; the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)+
                }
            }
        }
    };
}

codes! {
    /// No credentials, or none that count.
    Unauthorized = "unauthorized", "Credentials are needed";
    /// The wrong role.
    Forbidden = "forbidden", "The role does not allow it";
    /// Not there, or another tenant's.
    NotFound = "not_found", "Not found";
    /// There, but not for this method.
    MethodNotAllowed = "method_not_allowed", "The method is not allowed";
    /// The request is wrong.
    ValidationFailed = "validation_failed", "The request is not valid";
    /// A body of another type than is taken.
    UnsupportedMediaType = "unsupported_media_type", "The type of the body is not taken";
    /// The present state does not allow it.
    Conflict = "conflict", "The present state does not allow it";
    /// A review that another reviewer holds.
    AlreadyClaimed = "already_claimed", "Another reviewer has it";
    /// A review that was decided.
    AlreadyDecided = "already_decided", "It was decided already";
    /// The lease's token is not the present one.
    LeaseLost = "lease_lost", "The lease is no longer held";
    /// Only a failed item can be retried.
    NotFailed = "not_failed", "Only a failed item can be retried";
    /// Too many submissions, or too many failed attempts to get in.
    RateLimited = "rate_limited", "Too many requests";
    /// The externalId is taken by other content.
    ExternalIdConflict = "external_id_conflict", "The externalId names other content";
    /// A rerun needs a higher version.
    ReviewVersionNotHigher = "review_version_not_higher", "The version is not higher";
    /// More bytes than are taken.
    PayloadTooLarge = "payload_too_large", "Too large";
    /// An operator has paused it.
    Paused = "paused", "It is paused";
    /// The request took too long to arrive.
    RequestTimeout = "request_timeout", "The request took too long";
    /// For the moment.
    Unavailable = "unavailable", "Not available at the moment";
    /// A fault of the server; its log tells more.
    Internal = "internal", "Something went wrong";
}

impl Code {
    /// The code of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == word)
    }

    /// A URI for the kind of problem, as RFC 9457 wants one.
    pub fn type_uri(self) -> String {
        format!("urn:docket:problem:{}", self.as_str())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The kind of problem, as a URI.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in a few words.
    pub title: String,
    /// The HTTP status.
    #[cfg_attr(feature = "openapi", schema(minimum = 400, maximum = 599))]
    pub status: u16,
    /// What is wrong, and what would be right; for people.
    pub detail: String,
    /// What programs branch on.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::problem::Code))]
    pub code: String,
    /// Where in the request: a property's path, a parameter's or a header's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Seconds until it is worth another try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_time_seconds: Option<u64>,
    /// Who holds the review, where somebody else does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_to: Option<String>,
    /// Until when, unless they ask for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
    /// The request's id, which the server's log knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Problem {
    /// A problem with no more to say than this.
    pub fn new(code: Code, status: u16, detail: impl Into<String>) -> Self {
        Self {
            kind: code.type_uri(),
            title: code.title().to_owned(),
            status,
            detail: detail.into(),
            code: code.as_str().to_owned(),
            path: None,
            wait_time_seconds: None,
            assigned_to: None,
            lease_expires_at: None,
            request_id: None,
        }
    }

    /// The code, where this version of the crate knows it.
    pub fn code(&self) -> Option<Code> {
        Code::from_word(&self.code)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.detail, self.status, self.code)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_back_and_none_is_there_twice() {
        for code in Code::ALL {
            assert_eq!(Code::from_word(code.as_str()), Some(*code));
        }
        let words: std::collections::HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), Code::ALL.len());
    }

    #[test]
    fn a_problem_says_no_more_than_it_knows() {
        let problem = Problem::new(Code::NotFound, 404, "there is no item 'x'");
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "type": "urn:docket:problem:not_found", "title": "Not found", "status": 404,
                "detail": "there is no item 'x'", "code": "not_found",
            })
        );
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
    }
}
