//! What can go wrong with a call, told apart by what a caller can do about it.

use std::time::Duration;

use docket_wire::Code;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What calls end with.
pub type Result<T> = std::result::Result<T, ClientError>;

/// A call that was not answered as hoped.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server said no, and why.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// The server was not reached, or its answer did not arrive. Whether the call took effect is not known, unless
    /// `reached` is false.
    #[error("{server} {}", if *.reached { "did not answer" } else { "cannot be reached" })]
    Transport {
        /// Whom we asked.
        server: String,
        /// Whether the request may have arrived.
        reached: bool,
        /// What the transport says.
        source: reqwest::Error,
    },
    /// The server answered what no Docket of this version answers.
    #[error("{server} answered what cannot be read: {problem}")]
    Decode {
        /// Whom we asked.
        server: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file on this side could not be read or written.
    #[error("{what}")]
    File {
        /// Which file, and what was to be done with it.
        what: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The caller's own settings are no good.
    #[error("{0}")]
    Settings(String),
}

impl ClientError {
    /// The server's code, where the server said no and this version knows the code.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => problem.code(),
            _ => None,
        }
    }

    /// Whether a lease was lost: the one refusal that a worker has to expect at any time.
    pub fn is_lease_lost(&self) -> bool {
        self.code() == Some(Code::LeaseLost)
    }

    /// Whether the same call may be answered otherwise a little later: the server is away, restarts, or has too much to do.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.status >= 500 || problem.status == 408 || problem.status == 429,
            Self::Transport { .. } => true,
            Self::Decode { .. } | Self::File { .. } | Self::Settings(_) => false,
        }
    }
}

/// A no in the form of RFC 9457.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Which no it is, in the contract's word; empty where it was not the server that said it.
    pub code: String,
    /// What it means, in general.
    pub title: Option<String>,
    /// What it means here.
    pub detail: Option<String>,
    /// When to ask again.
    pub retry_after: Option<Duration>,
    /// The id of the request, for the one who reads the server's log.
    pub request_id: Option<String>,
    /// What else the server said of it.
    pub more: Map<String, Value>,
}

#[derive(Deserialize)]
struct Document {
    code: Option<String>,
    title: Option<String>,
    detail: Option<String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Problem {
    /// Reads the body of a refusal. Anything between us and the server may have written it, so nothing is relied upon.
    pub(crate) fn read(
        status: u16,
        retry_after: Option<Duration>,
        request_id: Option<String>,
        body: &[u8],
    ) -> Self {
        let document = serde_json::from_slice::<Document>(body).ok();
        let Some(Document {
            code,
            title,
            detail,
            more,
        }) = document
        else {
            let said = String::from_utf8_lossy(&body[..body.len().min(200)])
                .trim()
                .to_owned();
            return Self {
                status,
                code: String::new(),
                title: None,
                detail: (!said.is_empty()).then_some(said),
                retry_after,
                request_id,
                more: Map::new(),
            };
        };
        Self {
            status,
            code: code.unwrap_or_default(),
            title,
            detail,
            retry_after,
            request_id,
            more,
        }
    }

    /// The code, where this version knows it.
    pub fn code(&self) -> Option<Code> {
        Code::from_word(&self.code)
    }

    fn sentence(&self) -> String {
        let said = self.detail.as_deref().or(self.title.as_deref());
        match said {
            Some(said) if self.status >= 500 => format!("the server failed ({}): {said}", self.status),
            Some(said) => said.to_owned(),
            None => format!("the server answered with status {}", self.status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_read_by_its_code_and_kept_whole() {
        let body = br#"{"type":"about:blank","title":"Conflict","status":409,"detail":"taken","code":"already_claimed","assignedTo":"ann"}"#;
        let problem = Problem::read(409, None, None, body);
        assert_eq!(problem.code(), Some(Code::AlreadyClaimed));
        assert_eq!(problem.to_string(), "taken");
        assert_eq!(problem.more["assignedTo"], "ann");
    }

    #[test]
    fn what_a_proxy_says_is_a_problem_too() {
        let problem = Problem::read(502, None, None, b"<html>bad gateway</html>");
        assert_eq!(problem.code(), None);
        assert!(problem.to_string().contains("502"), "{problem}");
        assert!(ClientError::Problem(Box::new(problem)).is_passing());
        assert_eq!(
            Problem::read(404, None, None, b"").to_string(),
            "the server answered with status 404"
        );
    }
}
