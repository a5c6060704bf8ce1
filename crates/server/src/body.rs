//! JSON bodies: room for them, their bytes, and what they say.
//!
//! Before a body is parsed one look over its bytes tells what its values would take in memory, and whether its numbers stay what
//! they are ([`docket_wire::json`]).

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use docket_wire::json::{self, Unfit};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::error::{ApiError, ApiResult};
use crate::extract::{member_path, one_header};
use crate::room::{Held, Holding};
use crate::state::AppState;
use crate::strict::Strict;

/// From this size on JSON is read away from the threads that serve others.
const READ_ASIDE: usize = 256 << 10;

/// Reads a JSON body of at most so many bytes.
pub(crate) async fn read_json<T>(request: Request, state: &AppState, limit: usize) -> ApiResult<T>
where
    T: DeserializeOwned + Send + 'static,
{
    check_is_json(request.headers())?;
    check_plain(request.headers())?;
    let holding = request.extensions().get::<Holding>().cloned();
    let (text, for_body) = read_body(request.into_body(), state, limit).await?;
    let (size, values_max) = (text.len(), state.config().values_max);
    let (text, weight) = aside(size, move || {
        let weight = json::weigh(&text, values_max);
        (text, weight)
    })
    .await?;
    let weight = match weight {
        Ok(weight) => weight,
        Err(unfit) => return Err(unfit_body(unfit, &text, values_max)),
    };
    let for_values = state.room().for_values(weight).await?;
    // Who no longer listens is parsed to the end: the room goes along.
    let held = [for_body, for_values];
    let (parsed, held) = aside(size, move || (parse_json(&text), held)).await?;
    if let Some(holding) = holding {
        holding.keep(held);
    }
    parsed
}

async fn aside<T: Send + 'static>(size: usize, work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    if size < READ_ASIDE {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::Internal)
}

fn unfit_body(unfit: Unfit, text: &[u8], values_max: usize) -> ApiError {
    // What is no JSON is that before anything else.
    if matches!(unfit, Unfit::Inexact { .. })
        && let Err(error) = parse_json::<serde::de::IgnoredAny>(text)
    {
        return error;
    }
    let problem = unfit.problem();
    match unfit {
        Unfit::TooMuch => ApiError::TooMuch {
            limit: values_max as u64,
        },
        Unfit::Inexact { path, .. } if !path.is_empty() => ApiError::malformed(path, problem),
        Unfit::Inexact { .. } | Unfit::TooDeep => ApiError::malformed("body", problem),
    }
}

fn check_is_json(headers: &HeaderMap) -> ApiResult<()> {
    let found = one_header(headers, &header::CONTENT_TYPE)?.unwrap_or_default();
    let essence = found
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let said = match found {
        "" => "the body needs Content-Type: application/json".to_owned(),
        other => format!("the body needs Content-Type: application/json, not '{other}'"),
    };
    Err(ApiError::MediaType(said))
}

/// Bodies are taken as they are: what they unpack to would have no bound.
pub(crate) fn check_plain(headers: &HeaderMap) -> ApiResult<()> {
    match one_header(headers, &header::CONTENT_ENCODING)? {
        None => Ok(()),
        Some(word) if word.trim().eq_ignore_ascii_case("identity") => Ok(()),
        Some(_) => Err(ApiError::MediaType(
            "a body with Content-Encoding is not taken; send it as it is".to_owned(),
        )),
    }
}

/// A body's bytes, and the room that they take. They take it as they arrive: who says that much is to come, and sends little, holds little.
async fn read_body(body: Body, state: &AppState, limit: usize) -> ApiResult<(Bytes, Held)> {
    let too_large = || ApiError::TooLarge {
        what: "the body",
        limit: limit as u64,
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let read = async {
        let mut body = Limited::new(body, limit);
        let (mut text, mut held) = (Vec::new(), Held::default());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => too_large(),
                false => ApiError::Cut,
            })?;
            text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            state.room().for_more(&mut held, text.len()).await?;
        }
        Ok((text.into(), held))
    };
    tokio::time::timeout(state.config().body_timeout, read)
        .await
        .map_err(|_| ApiError::Slow)?
}

/// Reads JSON; only what cannot be read is read again, for its place.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = T::deserialize(Strict(&mut reader)).and_then(|read| reader.end().map(|()| read));
    let first: serde_json::Error = match read {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(Strict(&mut reader)) else {
        // What was read is right, and more follows.
        return Err(ApiError::malformed("body", first.to_string()));
    };
    let path = error.path().to_string();
    let error = error.into_inner();
    let problem = error.to_string();
    let path = match error.classify() {
        serde_json::error::Category::Data => member_path(&path, &problem, "body"),
        _ => "body".to_owned(),
    };
    Err(ApiError::malformed(path, problem))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::ServerConfig;

    #[test]
    fn a_thousand_ordinary_items_and_the_largest_batch_of_embeddings_have_room() {
        let config = ServerConfig::default();
        let embedding: Vec<f64> = (0..1_536).map(|n| f64::from(n) * 0.000_651 - 0.5).collect();
        let text = json!({ "payload": { "id": "doc", "embedding": embedding } }).to_string();
        let weight = json::weigh(&text.clone().into_bytes(), usize::MAX).unwrap();
        let most = config.batch_max / text.len();
        assert!(
            weight * most < config.values_max,
            "{weight} of {} bytes",
            text.len()
        );
        let line =
            json!({ "sku": "A-1234", "text": "a thing", "quantity": 2, "price": 9.9, "tax": { "rate": 19 } });
        let item = json!({
            "externalId": "INV-1", "payload": { "vendor": { "name": "Acme", "city": "Ulm" }, "lines": vec![line; 50] },
            "fields": vec![json!({ "name": "total", "value": 5, "confidence": 90, "region": { "page": 1 } }); 20],
        });
        let text = json!({ "items": vec![item; 1_000] }).to_string();
        json::weigh(text.as_bytes(), config.values_max).unwrap();
        assert!(config.values_max <= config.values_held_max && config.batch_max <= config.bodies_held_max);
    }
}
