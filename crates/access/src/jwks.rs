//! A key set at an address (JWKS), as identity providers publish it.
//!
//! The set is fetched when the first token arrives, again once it is [`REFRESH_MS`] old, and when a token names a key that is not
//! in it, but never more often than every [`PAUSE_MS`], whatever tokens arrive. When the provider is away the last good set
//! stays in use for a day. One fetch runs at a time; it is bounded in time and size, and follows no redirect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_core::Timestamp;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::{Client, Url};
use serde::Deserialize;
use serde_json::Value;

use crate::jwt::PinnedKey;
use crate::{ConfigError, Fault};

/// How old a set may become before it is fetched again.
const REFRESH_MS: i64 = 300_000;
/// The least time between two fetches.
const PAUSE_MS: i64 = 10_000;
/// How long a set stays in use while its provider is away.
const KEPT_MS: i64 = 86_400_000;
const TIMEOUT: Duration = Duration::from_secs(5);
const BYTES_MAX: usize = 256 * 1024;
const KEYS_MAX: usize = 100;

#[derive(Default)]
struct State {
    keys: Arc<Vec<(Option<String>, PinnedKey)>>,
    fetched: Option<Timestamp>,
    tried: Option<Timestamp>,
    failed: bool,
}

pub(crate) struct Jwks {
    url: Url,
    client: Client,
    state: Arc<Mutex<State>>,
    fetching: Arc<tokio::sync::Mutex<()>>,
}

impl Jwks {
    pub(crate) fn new(url: &str) -> Result<Self, ConfigError> {
        let refuse = |text: String| ConfigError(format!("auth.jwt.jwks_url: {text}"));
        let url = Url::parse(url).map_err(|error| refuse(format!("is no URL: {error}")))?;
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(&url)) {
            return Err(refuse(
                "has to begin with https: whoever can change the answer can let anybody in".to_owned(),
            ));
        }
        let client = Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(Duration::from_secs(2))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent("docket")
            .build()
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self {
            url,
            client,
            state: Arc::default(),
            fetching: Arc::default(),
        })
    }

    /// The key of this id; where a token names none, the only one there is.
    pub(crate) async fn key(&self, kid: Option<&str>, now: Timestamp) -> Result<PinnedKey, Fault> {
        let (found, age_ms) = self.find(kid, now);
        match (found, age_ms) {
            (Some(key), Some(age_ms)) if (0..REFRESH_MS).contains(&age_ms) => return Ok(key),
            // In use already, and renewed beside it: nobody waits for the provider.
            (Some(key), Some(age_ms)) if age_ms < KEPT_MS => {
                self.refresh_aside(now);
                return Ok(key);
            }
            _ => {}
        }
        refresh(&self.client, &self.url, &self.state, &self.fetching, now).await;
        let (found, age_ms) = self.find(kid, now);
        if let Some(key) = found.filter(|_| age_ms.is_some_and(|age_ms| age_ms < KEPT_MS)) {
            return Ok(key);
        }
        let failed = self.state.lock().unwrap_or_else(PoisonError::into_inner).failed;
        if failed || age_ms.is_none() {
            return Err(Fault::unavailable());
        }
        Err(match kid {
            Some(_) => Fault::guess("its 'kid' names no key of the key set"),
            None => Fault::guess("it has no 'kid', and the key set has more than one key"),
        })
    }

    fn find(&self, kid: Option<&str>, now: Timestamp) -> (Option<PinnedKey>, Option<i64>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let age_ms = state.fetched.map(|at| now.since(at));
        let key = match (kid, state.keys.as_slice()) {
            (None, [(_, only)]) => Some(only.clone()),
            (None, _) => None,
            (Some(kid), keys) => keys
                .iter()
                .find(|(id, _)| id.as_deref() == Some(kid))
                .map(|(_, key)| key.clone()),
        };
        (key, age_ms)
    }

    fn refresh_aside(&self, now: Timestamp) {
        if !may_try(&self.state.lock().unwrap_or_else(PoisonError::into_inner), now) {
            return;
        }
        let (client, url) = (self.client.clone(), self.url.clone());
        let (state, fetching) = (Arc::clone(&self.state), Arc::clone(&self.fetching));
        tokio::spawn(async move { refresh(&client, &url, &state, &fetching, now).await });
    }
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    })
}

/// Not twice within the pause; a clock that was set back does not stop it for ever.
fn may_try(state: &State, now: Timestamp) -> bool {
    state
        .tried
        .is_none_or(|tried| !(0..PAUSE_MS).contains(&now.since(tried)))
}

/// Fetches the set, unless that was tried just now. Those who come while it is fetched wait for the outcome.
async fn refresh(
    client: &Client,
    url: &Url,
    state: &Mutex<State>,
    fetching: &tokio::sync::Mutex<()>,
    now: Timestamp,
) {
    let _one_at_a_time = fetching.lock().await;
    {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if !may_try(&state, now) {
            return;
        }
        // Set before the fetch, which may be given up with its caller.
        (state.tried, state.failed) = (Some(now), true);
    }
    match fetch(client, url.clone()).await {
        Ok(keys) => {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.keys, state.fetched, state.failed) = (Arc::new(keys), Some(now), false);
        }
        Err(error) => tracing::warn!(host = url.host_str(), %error, "the key set could not be fetched"),
    }
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

async fn fetch(client: &Client, url: Url) -> Result<Vec<(Option<String>, PinnedKey)>, String> {
    let told = |error: reqwest::Error| error.without_url().to_string();
    let mut response = client.get(url).send().await.map_err(told)?;
    if !response.status().is_success() {
        return Err(format!("the provider answered {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(told)? {
        if body.len() + chunk.len() > BYTES_MAX {
            return Err(format!("the answer has more than {BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    let set: KeySet = serde_json::from_slice(&body).map_err(|error| format!("it is no key set: {error}"))?;
    let keys = usable(set.keys);
    if keys.is_empty() {
        return Err("it has no key for RS256 or ES256".to_owned());
    }
    Ok(keys)
}

/// The keys that can be used here. Others are left out: providers publish keys for encryption, and kinds unknown to us, beside them.
fn usable(keys: Vec<Value>) -> Vec<(Option<String>, PinnedKey)> {
    let mut seen = HashMap::new();
    keys.into_iter()
        .take(KEYS_MAX)
        .filter_map(|key| serde_json::from_value::<Jwk>(key).ok())
        .filter_map(|jwk| pin(&jwk).map(|key| (jwk.common.key_id, key)))
        .filter(|(kid, _)| seen.insert(kid.clone(), ()).is_none())
        .collect()
}

fn pin(jwk: &Jwk) -> Option<PinnedKey> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        // A secret in a public place is no secret.
        _ => return None,
    };
    if jwk
        .common
        .key_algorithm
        .as_ref()
        .is_some_and(|name| *name != named)
    {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(PinnedKey { algorithm, key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_keys_for_signatures_of_the_algorithms_taken_here_are_used() {
        let rsa = json!({ "kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB" });
        let with = |mut key: Value, name: &str, value: &str| {
            key[name] = json!(value);
            key
        };
        let ec = json!({ "kty": "EC", "kid": "e", "crv": "P-256", "x": "AQAB", "y": "AQAB" });
        for (key, used) in [
            (rsa.clone(), true),
            (with(rsa.clone(), "use", "sig"), true),
            (with(rsa.clone(), "use", "enc"), false),
            (with(rsa.clone(), "alg", "RS256"), true),
            (with(rsa.clone(), "alg", "HS256"), false),
            (with(rsa, "alg", "RS512"), false),
            (ec.clone(), true),
            (with(ec, "crv", "P-384"), false),
            (json!({ "kty": "oct", "kid": "o", "k": "c2VjcmV0" }), false),
            (json!({ "kty": "new", "kid": "n" }), false),
            (json!("nonsense"), false),
        ] {
            assert_eq!(usable(vec![key.clone()]).len(), usize::from(used), "{key}");
        }
    }

    #[test]
    fn a_key_id_stands_for_one_key() {
        let rsa = json!({ "kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB" });
        assert_eq!(usable(vec![rsa.clone(); 3]).len(), 1);
    }
}
