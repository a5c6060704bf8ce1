//! `Idempotency-Key` (rule I6): the same key returns the first answer and creates nothing.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use docket_core::name::{TEXT_MAX, check_text};

use crate::error::{ApiError, ApiResult};
use crate::extract::one_header;
use crate::state::AppState;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is the one first given to the same key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Says that the first call said something else.
const DIFFERS: HeaderName = HeaderName::from_static("idempotency-request-differs");

/// The key that a creating call came with.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl FromRequestParts<AppState> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> ApiResult<Self> {
        let Some(key) = one_header(&parts.headers, &HEADER)? else {
            return Ok(Self(None));
        };
        check_text("Idempotency-Key", key, TEXT_MAX)?;
        Ok(Self(Some(key.to_owned())))
    }
}

/// Marks the answer of a call whose key was used before.
pub(crate) fn marked(replayed: bool, request_differs: bool, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    let yes = HeaderValue::from_static("true");
    if replayed {
        response.headers_mut().insert(REPLAYED, yes.clone());
    }
    if request_differs {
        response.headers_mut().insert(DIFFERS, yes);
    }
    response
}
