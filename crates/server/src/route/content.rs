//! The stored file of an item, whole or a part of it. Whatever it is, it never runs in the origin of the page that shows it.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use docket_core::id::ItemId;
use docket_engine::GetRange;
use docket_wire::schema;

use crate::caller::{As, Fetching};
use crate::disposition;
use crate::error::{ApiError, ApiResult};
use crate::extract::{PathParam, one_header};
use crate::layer::Streamed;
use crate::openapi::{Missing, RangeHeaders};
use crate::state::AppState;

/// Types that a browser shows without running anything; the rest is offered for saving.
const SHOWN: [&str; 7] = [
    "application/pdf",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/tiff",
    "image/webp",
    "text/plain",
];

/// The stored file of an item.
///
/// With its type and name, and never executable in the page's origin. One `Range` is served; several are
/// answered with the whole.
#[utoipa::path(
    get, path = "/api/v1/items/{itemId}/content", tag = "Intake",
    params(("itemId" = schema::Id, Path, description = "The item."), RangeHeaders),
    responses(
        (status = 200, description = "The file.", body = Vec<u8>, content_type = "*/*"),
        (status = 206, description = "A part of the file.", body = Vec<u8>, content_type = "*/*"),
        (status = 304, description = "The file is what `If-None-Match` names."),
        (status = 416, description = "The range lies outside of the file.", body = docket_wire::Problem,
         content_type = "application/problem+json"),
        Missing
    )
)]
pub(crate) async fn content(
    State(state): State<AppState>,
    caller: As<Fetching>,
    PathParam(id): PathParam<ItemId>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let scope = caller.scope_of_item(&state, id).await?;
    let item = state.engine().content_item(&scope, id).await?;
    let tag = format!("\"{}\"", item.content_hash);
    if one_header(&headers, &header::IF_NONE_MATCH)?.is_some_and(|known| names(known, &tag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let same = one_header(&headers, &header::IF_RANGE)?.is_none_or(|known| known == tag);
    let asked = one_header(&headers, &header::RANGE)?.filter(|_| same);
    let size = item.size;
    let part = match asked.and_then(|asked| part(asked, size)) {
        None => None,
        Some(Some(part)) => Some(part),
        Some(None) => return Err(ApiError::Range { size }),
    };
    let media_type = item.media_type.clone().unwrap_or_default();
    let filename = item.filename.clone();
    let range = part.clone().map(GetRange::Bounded);
    let found = state.engine().content_part(item, range).await?;
    let mut response = Body::from_stream(found.bytes.into_stream()).into_response();
    describe(response.headers_mut(), &media_type, filename.as_deref());
    let length = part.as_ref().map_or(size, |part| part.end - part.start);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert(headers, header::ETAG, &tag);
    if let Some(part) = part {
        let range = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        insert(headers, header::CONTENT_RANGE, &range);
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response.extensions_mut().insert(Streamed);
    Ok(response)
}

fn names(known: &str, tag: &str) -> bool {
    known
        .split(',')
        .map(str::trim)
        .any(|one| one == tag || one == "*")
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The part that a `Range` asks for: none where it is to be passed over, none within where it lies outside.
#[expect(
    clippy::option_option,
    reason = "a range is passed over, outside, or a part: two different nothings"
)]
fn part(asked: &str, size: u64) -> Option<Option<std::ops::Range<u64>>> {
    let ranges = asked.strip_prefix("bytes=")?;
    let (from, to) = ranges.split_once('-').filter(|_| !ranges.contains(','))?;
    let (from, to) = (from.trim(), to.trim());
    if from.is_empty() {
        let last: u64 = to.parse().ok()?;
        return Some((last > 0 && size > 0).then(|| size.saturating_sub(last)..size));
    }
    let from: u64 = from.parse().ok()?;
    let end = match to {
        "" => size,
        to => to
            .parse::<u64>()
            .ok()
            .filter(|to| *to >= from)?
            .saturating_add(1)
            .min(size),
    };
    Some((from < size).then_some(from..end))
}

fn describe(headers: &mut HeaderMap, media_type: &str, filename: Option<&str>) {
    let essence = media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let shown = SHOWN.contains(&essence.as_str());
    let kind = HeaderValue::from_str(media_type)
        .ok()
        .filter(|_| !media_type.is_empty());
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_TYPE, kind);
    let how = if shown { "inline" } else { "attachment" };
    insert(
        headers,
        header::CONTENT_DISPOSITION,
        &disposition::write(how, filename),
    );
    // A sandbox keeps a browser's own viewer of PDF files from working, and such files run nothing in the origin.
    let policy = match essence == "application/pdf" {
        true => "default-src 'none'; frame-ancestors 'self'",
        false => "default-src 'none'; sandbox; frame-ancestors 'self'",
    };
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    let private = HeaderValue::from_static("private, no-cache");
    headers.insert(header::CACHE_CONTROL, private);
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_range_is_a_part_outside_or_passed_over() {
        for (asked, found) in [
            ("bytes=0-0", Some(Some(0..1))),
            ("bytes=2-", Some(Some(2..10))),
            ("bytes=2-99", Some(Some(2..10))),
            ("bytes=-3", Some(Some(7..10))),
            ("bytes=-99", Some(Some(0..10))),
            ("bytes=10-", Some(None)),
            ("bytes=-0", Some(None)),
            ("bytes=5-2", None),
            ("bytes=0-1,3-4", None),
            ("items=0-1", None),
            ("bytes=x-", None),
            ("bytes=18446744073709551615-18446744073709551615", Some(None)),
        ] {
            assert_eq!(part(asked, 10), found, "{asked}");
        }
    }
}
