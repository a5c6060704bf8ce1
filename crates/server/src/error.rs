//! Errors as the wire writes them: one type, one exhaustive match, `application/problem+json`.
//!
//! A refusal is answered in full. A fault of the server is logged here, once, with its whole chain, and its answer says nothing but
//! that. The body itself is written by [`crate::layer`], which knows the request's id.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use docket_access::Denied;
use docket_core::Refusal;
use docket_core::access::Role;
use docket_engine::Error as EngineError;
use docket_wire::batch::{EntryError, RefusedEntry};
use docket_wire::{Code, Problem};

/// Short for a handler's result.
pub type ApiResult<T> = Result<T, ApiError>;

/// Seconds after which a client should ask again when the server or its database is away.
const RETRY_UNAVAILABLE_S: u64 = 1;

/// Why a request was not answered with what it asked for.
#[derive(Debug)]
pub enum ApiError {
    /// The engine, or a rule.
    Engine(EngineError),
    /// Who asks could not be told.
    Denied(Denied),
    /// The wrong role.
    Role {
        /// What the caller is.
        has: Role,
        /// What they would have to be.
        needs: &'static [Role],
    },
    /// The request cannot be read.
    Malformed {
        /// Where.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// A body of another type than is taken.
    MediaType(String),
    /// A body larger than is taken.
    TooLarge {
        /// What.
        what: &'static str,
        /// The largest size taken.
        limit: u64,
    },
    /// A body whose values would take more memory than one call may.
    TooMuch {
        /// The most that is taken.
        limit: u64,
    },
    /// A part of a file that lies outside of it.
    Range {
        /// The file's size.
        size: u64,
    },
    /// The body did not arrive in time.
    Slow,
    /// The body ended before its end.
    Cut,
    /// Other calls hold all the room that there is.
    Full,
    /// The call took too long, or the server is stopping.
    Unavailable(&'static str),
    /// No such route.
    NoRoute(String),
    /// The route is there, but not for this method.
    Method,
    /// A fault that was logged where it happened.
    Internal,
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(EngineError::Refused(refusal))
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl ApiError {
    /// The request cannot be read at `path`.
    pub fn malformed(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Malformed {
            path: path.into(),
            problem: problem.into(),
        }
    }

    fn problem(&self) -> Problem {
        match self {
            Self::Engine(EngineError::Refused(refusal)) => refused(refusal),
            Self::Engine(error) => failed(error),
            Self::Denied(denied) => denied_problem(denied),
            Self::Role { has, needs } => {
                let needs: Vec<_> = needs.iter().map(|role| role.as_str()).collect();
                let detail = format!("this call needs role {}; yours is {has}", needs.join(" or "));
                Problem::new(Code::Forbidden, 403, detail)
            }
            Self::Malformed { path, problem } => {
                let mut said = Problem::new(Code::ValidationFailed, 422, format!("{path}: {problem}"));
                said.path = Some(path.clone());
                said
            }
            Self::MediaType(detail) => Problem::new(Code::UnsupportedMediaType, 415, detail),
            Self::TooLarge { what, limit } => Problem::new(
                Code::PayloadTooLarge,
                413,
                format!("{what} is larger than the {limit} bytes that are taken"),
            ),
            Self::TooMuch { limit } => Problem::new(
                Code::PayloadTooLarge,
                413,
                format!(
                    "the values of the body would take more than the {} MiB of memory that one call may; send fewer items in a call",
                    limit >> 20
                ),
            ),
            Self::Range { size } => {
                let detail = format!("Range: the file has {size} bytes, and none of them are in that range");
                let mut said = Problem::new(Code::ValidationFailed, 416, detail);
                said.path = Some("Range".to_owned());
                said
            }
            Self::Slow => Problem::new(Code::RequestTimeout, 408, "the body did not arrive in time"),
            Self::Cut => {
                let mut said = Problem::new(Code::ValidationFailed, 422, "body: ended before its end");
                said.path = Some("body".to_owned());
                said
            }
            Self::Full => unavailable("the server is busy with other large calls; send it again in a moment"),
            Self::Unavailable(detail) => unavailable(detail),
            Self::NoRoute(path) => Problem::new(Code::NotFound, 404, format!("there is nothing at '{path}'")),
            Self::Method => Problem::new(
                Code::MethodNotAllowed,
                405,
                "this method is not for this path; the Allow header names those that are",
            ),
            Self::Internal => internal(),
        }
    }
}

fn internal() -> Problem {
    let detail = "something went wrong in the server; its log, under this request's id, tells more";
    Problem::new(Code::Internal, 500, detail)
}

fn unavailable(detail: &str) -> Problem {
    let mut said = Problem::new(Code::Unavailable, 503, detail);
    said.wait_time_seconds = Some(RETRY_UNAVAILABLE_S);
    said
}

/// Milliseconds in whole seconds, rounded up, so that nobody comes back too early.
pub(crate) fn seconds_up(ms: i64) -> u64 {
    u64::try_from(ms.max(0)).unwrap_or(0).div_ceil(1_000)
}

const fn code_of(refusal: &Refusal) -> (Code, u16) {
    match refusal {
        Refusal::NotFound { .. } => (Code::NotFound, 404),
        Refusal::Invalid { .. } => (Code::ValidationFailed, 422),
        Refusal::TooLarge { .. } => (Code::PayloadTooLarge, 413),
        Refusal::RateLimited { .. } => (Code::RateLimited, 429),
        Refusal::ExternalIdConflict { .. } => (Code::ExternalIdConflict, 409),
        Refusal::LeaseLost => (Code::LeaseLost, 409),
        Refusal::AlreadyClaimed { .. } => (Code::AlreadyClaimed, 409),
        Refusal::AlreadyDecided { .. } => (Code::AlreadyDecided, 409),
        Refusal::Paused { .. } => (Code::Paused, 409),
        Refusal::NotFailed { .. } => (Code::NotFailed, 409),
        Refusal::ReviewVersionNotHigher { .. } => (Code::ReviewVersionNotHigher, 409),
        Refusal::Conflict { .. } | Refusal::UploadExpired { .. } => (Code::Conflict, 409),
    }
}

fn refused(refusal: &Refusal) -> Problem {
    let (code, status) = code_of(refusal);
    let mut said = Problem::new(code, status, refusal.to_string());
    match refusal {
        Refusal::Invalid { path, .. } => said.path = Some(path.clone()),
        Refusal::AlreadyClaimed {
            assigned_to,
            lease_expires_at,
        } => {
            said.assigned_to = Some(assigned_to.clone());
            said.lease_expires_at = Some((*lease_expires_at).into());
        }
        Refusal::RateLimited { wait_ms, .. } => said.wait_time_seconds = Some(seconds_up(*wait_ms).max(1)),
        _ => {}
    }
    said
}

/// What was refused of one entry of a batch.
pub(crate) fn refused_entry(refusal: &Refusal) -> RefusedEntry {
    let said = refused(refusal);
    EntryError {
        code: said.code,
        detail: said.detail,
        path: said.path,
        wait_time_seconds: said.wait_time_seconds,
        assigned_to: said.assigned_to.map(Into::into),
        lease_expires_at: said.lease_expires_at,
    }
    .into()
}

/// A fault of the store, or of the one for files: logged here, with its chain, and answered without a word about it.
fn failed(error: &EngineError) -> Problem {
    let away = match error {
        EngineError::Refused(refusal) => return refused(refusal),
        EngineError::NoConnection { .. } | EngineError::Closed => true,
        EngineError::UnknownCommit { .. } => {
            log(error);
            let detail = "the database was lost at the moment of committing: it may have happened; ask again, with the \
                          same Idempotency-Key where the call has one";
            return unavailable(detail);
        }
        EngineError::Files(_) => {
            log(error);
            return unavailable("the file store cannot be reached at the moment");
        }
        EngineError::Sqlite { .. }
        | EngineError::Postgres { .. }
        | EngineError::WrongRows { .. }
        | EngineError::Inconsistent { .. }
        | EngineError::Json { .. }
        | EngineError::Unanswered { .. }
        | EngineError::Open(_) => error.is_transient(),
    };
    log(error);
    match away {
        true => unavailable("the database cannot be reached at the moment"),
        false => internal(),
    }
}

fn log(error: &EngineError) {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "a request failed in the engine"
    );
}

fn denied_problem(denied: &Denied) -> Problem {
    match denied {
        Denied::Missing | Denied::Invalid(_) => Problem::new(Code::Unauthorized, 401, denied.to_string()),
        Denied::Slowed { retry_after_s } => {
            let mut said = Problem::new(Code::RateLimited, 429, denied.to_string());
            said.wait_time_seconds = Some(*retry_after_s);
            said
        }
        Denied::Unavailable => unavailable("credentials cannot be checked at the moment"),
    }
}

/// A problem on its way to [`crate::layer`], which writes it.
#[derive(Clone, Debug)]
pub(crate) struct Said(pub(crate) Problem);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = self.problem();
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = problem.wait_time_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        match &self {
            Self::Denied(Denied::Missing) => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::Denied(Denied::Invalid(_)) => {
                let value = HeaderValue::from_static("Bearer error=\"invalid_token\"");
                headers.insert(header::WWW_AUTHENTICATE, value);
            }
            Self::Range { size } => {
                if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
                    headers.insert(header::CONTENT_RANGE, value);
                }
            }
            Self::Slow | Self::Cut | Self::TooLarge { .. } | Self::Full => {
                // What is left of the body is not read.
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response.extensions_mut().insert(Said(problem));
        response
    }
}
