//! Pages and their cursors. A cursor is opaque to clients: what it says may change.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use docket_wire::Page;
use docket_wire::page::{PAGE_DEFAULT, PAGE_MAX, PageQuery};

use crate::error::{ApiError, ApiResult};

/// How many entries a page has.
pub(crate) fn limit(asked: Option<u64>) -> ApiResult<u64> {
    match asked {
        None => Ok(PAGE_DEFAULT),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(_) => Err(ApiError::malformed(
            "limit",
            format!("must be from 1 to {PAGE_MAX}"),
        )),
    }
}

/// The place that a cursor names.
pub(crate) fn place(cursor: Option<&str>) -> ApiResult<Option<String>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.filter(|text| !text.is_empty() && !text.contains('\0') && text.len() <= 1_024);
    text.map(Some).ok_or_else(bad_cursor)
}

pub(crate) fn bad_cursor() -> ApiError {
    ApiError::malformed("cursor", "must be the nextCursor of the page before")
}

/// The place that a cursor names, as an id.
pub(crate) fn place_of<T: std::str::FromStr>(cursor: Option<&str>) -> ApiResult<Option<T>> {
    let text = place(cursor)?;
    text.map(|text| text.parse().map_err(|_| bad_cursor()))
        .transpose()
}

/// A page's query, read.
pub(crate) fn read(query: &PageQuery) -> ApiResult<(Option<String>, u64)> {
    Ok((place(query.cursor.as_deref())?, limit(query.limit)?))
}

/// A page as it is written.
pub(crate) fn write<T, U>(items: Vec<T>, next: Option<impl ToString>, map: impl FnMut(T) -> U) -> Page<U> {
    Page {
        items: items.into_iter().map(map).collect(),
        next_cursor: next.map(|place| URL_SAFE_NO_PAD.encode(place.to_string())),
    }
}
