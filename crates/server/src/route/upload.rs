//! Uploads: a file as the raw body, or as the part `file` of a browser's form (rules I3, I4, I7).
//!
//! The limit and an announced digest are checked before the body is first asked for, so that a client with `Expect: 100-continue`
//! sends nothing when it is refused; the connection is then closed instead of read. The bytes pass through and are never whole in
//! memory. A caller that goes away drops its upload, which gives back its place and its bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::multipart::Field;
use axum::extract::{FromRequest as _, Multipart, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use docket_core::Refusal;
use docket_core::content::Digest;
use docket_core::item::ItemDetails;
use docket_core::name::CollectionId;
use docket_core::scope::Scope;
use docket_engine::{Once, SubmittedItem, Upload, UploadRequest, UploadStart};
use docket_wire::item as wire;
use docket_wire::schema;
use futures_util::StreamExt as _;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use utoipa::IntoParams;

use super::submit::on_conflict;
use super::view;
use crate::body::check_plain;
use crate::caller::{As, Producing};
use crate::dictionary::{self, Member};
use crate::disposition;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Json, PathParam, Query, one_header};
use crate::idempotency::{IdempotencyKey, marked};
use crate::openapi::{Conflicts, IdempotencyHeader, Missing, UploadHeaders};
use crate::state::AppState;

const FILENAME: HeaderName = HeaderName::from_static("x-filename");
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const ANY_TYPE: &str = "application/octet-stream";

/// What comes with a file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UploadQuery {
    /// The caller's id, unique in the collection.
    #[param(value_type = Option<schema::ShortText>)]
    external_id: Option<String>,
    /// What to do when the externalId exists with other content; `refuse` where nothing is said.
    #[param(inline)]
    on_conflict: Option<wire::OnConflict>,
}

/// Upload a file.
///
/// The file is the raw body, with its type, its name in `X-Filename` (percent-encoded UTF-8) or
/// `Content-Disposition`, and its digest, where that is known, in `Repr-Digest`. A browser's form
/// (`multipart/form-data` with the one part `file`) works too. The same bytes again are a duplicate: the item
/// that is there comes back, and nothing is queued or counted.
#[utoipa::path(
    post, path = "/api/v1/collections/{collectionId}/documents", tag = "Intake",
    params(
        ("collectionId" = schema::Name, Path, description = "Where to."), UploadQuery, UploadHeaders, IdempotencyHeader
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The file; any type is taken."),
    responses(
        (status = 201, description = "The item.", body = wire::Uploaded),
        (status = 200, description = "The same bytes were there already: their item.", body = wire::Uploaded),
        Missing, Conflicts
    )
)]
pub(crate) async fn upload(
    State(state): State<AppState>,
    caller: As<Producing>,
    PathParam(collection): PathParam<CollectionId>,
    Query(query): Query<UploadQuery>,
    IdempotencyKey(key): IdempotencyKey,
    request: Request,
) -> Response {
    let answer = take(&state, &caller, collection, (query, key), request).await;
    let (mut response, whole) = match answer {
        Ok((response, whole)) => (response, whole),
        Err(error) => (error.into_response(), false),
    };
    if !whole {
        // What is left of the body is not read.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    response
}

/// Takes a file; the answer, and whether its body was read to the end.
async fn take(
    state: &AppState,
    caller: &As<Producing>,
    collection: CollectionId,
    (query, idempotency_key): (UploadQuery, Option<String>),
    request: Request,
) -> ApiResult<(Response, bool)> {
    let scope = caller.scope_of_collection(state, &collection).await?;
    let details = ItemDetails {
        external_id: query.external_id,
        on_conflict: on_conflict(query.on_conflict.unwrap_or_default()),
        ..ItemDetails::default()
    };
    let headers = request.headers();
    check_plain(headers)?;
    let media_type = one_header(headers, &header::CONTENT_TYPE)?
        .unwrap_or(ANY_TYPE)
        .to_owned();
    let wanted = UploadRequest {
        collection,
        filename: filename(headers)?,
        digest: announced(headers)?,
        size: length(headers)?,
        media_type,
        details,
        idempotency_key,
    };
    if is_form(&wanted.media_type) {
        return take_form(state, &scope, wanted, request).await;
    }
    let started = state.engine().upload(&scope, wanted).await;
    let mut upload = match started.map_err(said_in_headers)? {
        UploadStart::Duplicate(item) => return Ok((show(state, &scope, &item).await?, false)),
        UploadStart::Repeated(first) => return Ok((show_once(state, &scope, &first).await?, false)),
        UploadStart::Ready(upload) => upload,
    };
    match pour(state, &mut upload, request.into_body()).await {
        Ok(()) => {
            let taken = upload.finish_once().await.map_err(said_in_headers)?;
            Ok((show_once(state, &scope, &taken).await?, true))
        }
        Err(error) => {
            upload.abort().await?;
            Err(error)
        }
    }
}

async fn pour(state: &AppState, upload: &mut Upload, body: Body) -> ApiResult<()> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = within(state, pieces.next()).await? {
        upload.write(piece.map_err(|_| ApiError::Cut)?).await?;
    }
    Ok(())
}

async fn within<T>(state: &AppState, piece: impl Future<Output = T>) -> ApiResult<T> {
    let waited = tokio::time::timeout(state.config().idle_timeout, piece).await;
    waited.map_err(|_| ApiError::Slow)
}

fn is_form(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("multipart/form-data")
}

/// A form's file is named inside its body: before that is read only the limit can refuse it, and only where neither its key nor its digest
/// is known already.
async fn take_form(
    state: &AppState,
    scope: &Scope,
    wanted: UploadRequest,
    request: Request,
) -> ApiResult<(Response, bool)> {
    let left = state.engine().limits(scope).await?;
    if left.remaining == 0 && !state.engine().upload_is_known(scope, &wanted).await? {
        return Err(Refusal::RateLimited {
            limit: left.limit.unwrap_or(0),
            wait_ms: left.wait_ms,
        }
        .into());
    }
    let malformed = |_| ApiError::malformed("body", "is not a form that can be read");
    let heads = Heads::default();
    let request = request.map(|body| heads.bound(body));
    let mut form = Multipart::from_request(request, state)
        .await
        .map_err(|_| ApiError::malformed("Content-Type", "needs the boundary of the form's parts"))?;
    let part = within(state, form.next_field()).await?.map_err(malformed)?;
    let part = part.ok_or_else(only_file)?;
    heads.are_read();
    if part.name() != Some("file") {
        return Err(only_file());
    }
    let wanted = UploadRequest {
        filename: part.file_name().and_then(disposition::last_segment),
        media_type: part.content_type().unwrap_or(ANY_TYPE).to_owned(),
        // The form's length is not the file's.
        size: None,
        ..wanted
    };
    let started = state.engine().upload(scope, wanted).await;
    let mut upload = match started.map_err(said_in_headers)? {
        UploadStart::Duplicate(item) => return Ok((show(state, scope, &item).await?, false)),
        UploadStart::Repeated(first) => return Ok((show_once(state, scope, &first).await?, false)),
        UploadStart::Ready(upload) => upload,
    };
    let poured = pour_part(state, &mut upload, part).await;
    heads.begin();
    let ended = match poured {
        Ok(()) => within(state, form.next_field())
            .await
            .and_then(|next| match next {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err(only_file()),
                Err(error) => Err(malformed(error)),
            }),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => {
            let taken = upload.finish_once().await.map_err(said_in_headers)?;
            Ok((show_once(state, scope, &taken).await?, true))
        }
        Err(error) => {
            upload.abort().await?;
            Err(error)
        }
    }
}

/// What comes before a part of a form, and its head, are gathered in memory: no more of them than this is let through, but for the rest of
/// the piece in which that is reached.
#[derive(Clone, Default)]
struct Heads(Arc<AtomicUsize>);

const HEADS_MAX: usize = 64 << 10;

impl Heads {
    /// What follows belongs to a part, and goes where that goes.
    fn are_read(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    /// What follows is a head again.
    fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn bound(&self, body: Body) -> Body {
        let heads = self.clone();
        let pieces = body.into_data_stream().map(move |piece| {
            let (piece, passed) = (piece?, heads.0.load(Ordering::Relaxed));
            if passed == usize::MAX {
                return Ok(piece);
            }
            if passed > HEADS_MAX {
                return Err(axum::Error::new("the head of a part of the form is too long"));
            }
            heads.0.store(passed + piece.len(), Ordering::Relaxed);
            Ok(piece)
        });
        Body::from_stream(pieces)
    }
}

/// What the engine calls the digest and the media type are headers here.
fn said_in_headers(error: docket_engine::Error) -> ApiError {
    match error {
        docket_engine::Error::Refused(Refusal::Invalid { path, problem }) => {
            let path = match path.as_str() {
                "digest" => "Repr-Digest".to_owned(),
                "mediaType" => "Content-Type".to_owned(),
                _ => path,
            };
            ApiError::malformed(path, problem)
        }
        other => other.into(),
    }
}

fn only_file() -> ApiError {
    ApiError::malformed("body", "the form needs one part, named 'file', and no other")
}

async fn pour_part(state: &AppState, upload: &mut Upload, mut part: Field<'_>) -> ApiResult<()> {
    while let Some(piece) = within(state, part.chunk()).await?.map_err(|_| ApiError::Cut)? {
        upload.write(piece).await?;
    }
    Ok(())
}

async fn show_once(state: &AppState, scope: &Scope, once: &Once<SubmittedItem>) -> ApiResult<Response> {
    let answer = show(state, scope, &once.answer).await?;
    Ok(marked(once.replayed, once.request_differs, answer))
}

async fn show(state: &AppState, scope: &Scope, taken: &SubmittedItem) -> ApiResult<Response> {
    let item = view::item(state.engine().item(scope, taken.id).await?)?;
    let status = if taken.duplicate {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let place = [(header::LOCATION, format!("/api/v1/items/{}", taken.id))];
    let answer = wire::Uploaded {
        item,
        duplicate: taken.duplicate,
    };
    Ok((status, place, Json(answer)).into_response())
}

fn length(headers: &HeaderMap) -> ApiResult<Option<u64>> {
    let text = one_header(headers, &header::CONTENT_LENGTH)?;
    let parse = |text: &str| {
        text.parse()
            .map_err(|_| ApiError::malformed("Content-Length", "must be a number"))
    };
    text.map(parse).transpose()
}

fn filename(headers: &HeaderMap) -> ApiResult<Option<String>> {
    if let Some(text) = one_header(headers, &FILENAME)? {
        let decoded = percent_decode_str(text).decode_utf8();
        let decoded =
            decoded.map_err(|_| ApiError::malformed("X-Filename", "must be percent-encoded UTF-8"))?;
        return Ok(Some(decoded.into_owned()));
    }
    let Some(value) = headers.get(header::CONTENT_DISPOSITION) else {
        return Ok(None);
    };
    // Browsers and older clients send UTF-8 as it is.
    let text = std::str::from_utf8(value.as_bytes());
    let text = text.map_err(|_| ApiError::malformed("Content-Disposition", "must be UTF-8"))?;
    Ok(disposition::filename(text))
}

/// The SHA-256 of `Repr-Digest: sha-256=:…:` (RFC 9530); other algorithms are passed over. What cannot be read is refused: who announces a
/// digest relies on it.
fn announced(headers: &HeaderMap) -> ApiResult<Option<Digest>> {
    let wrong = |problem: &str| ApiError::malformed("Repr-Digest", problem);
    let lines: Result<Vec<_>, _> = headers
        .get_all(REPR_DIGEST)
        .iter()
        .map(|line| line.to_str())
        .collect();
    let lines = lines.map_err(|_| wrong("may only contain visible ASCII characters"))?;
    let Some(said) = dictionary::member(&lines.join(", "), "sha-256") else {
        return Err(wrong(
            "must be a dictionary of digests, like sha-256=:base64 of 32 bytes:",
        ));
    };
    let digest = match said {
        None => return Ok(None),
        Some(Member::Bytes(bytes)) => Digest::from_bytes(&bytes),
        Some(Member::Other) => None,
    };
    let digest = digest.ok_or_else(|| wrong("must be like sha-256=:base64 of 32 bytes:"))?;
    Ok(Some(digest))
}
