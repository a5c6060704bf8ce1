//! The client: whom it asks, as whom, and how a call is made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use docket_core::random::{Random, SystemRandom};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ClientError, Problem, Result};
use crate::retry::RetryPolicy;

/// The largest answer that is read whole.
const ANSWER_MAX: usize = 512 * 1024 * 1024;
/// The largest refusal that is read.
const PROBLEM_MAX: usize = 1024 * 1024;

/// How a client is set up.
#[derive(Clone)]
pub struct ClientOptions {
    /// Where the server is, as `http://127.0.0.1:7700`.
    pub url: String,
    /// An API key or a JWT.
    pub key: Option<String>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a call may take; a wait that it asks for is added.
    pub timeout: Duration,
    /// When calls are repeated.
    pub retry: RetryPolicy,
    /// Where waits and idempotency keys get their randomness.
    pub random: Arc<dyn Random>,
}

impl ClientOptions {
    /// The usual settings for a server and a key.
    pub fn new(url: impl Into<String>, key: Option<String>) -> Self {
        Self {
            url: url.into(),
            key,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            random: Arc::new(SystemRandom),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("url", &self.url)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// Speaks to a Docket server. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    base: Url,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    retry: RetryPolicy,
    random: Arc<dyn Random>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.inner.base.as_str())
            .finish_non_exhaustive()
    }
}

/// One call before it is made.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Option<bytes::Bytes>,
    pub(crate) headers: HeaderMap,
    /// Whether it may be made again when it is not known whether it took effect.
    pub(crate) repeatable: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Call {
    /// Adds a parameter to the URL, where there is one.
    #[must_use]
    pub(crate) fn query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.url.query_pairs_mut().append_pair(name, &value.to_string());
        }
        self
    }

    #[must_use]
    pub(crate) const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    #[must_use]
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

impl Client {
    /// A client with the usual settings.
    pub fn new(url: impl Into<String>, key: Option<String>) -> Result<Self> {
        Self::with_options(ClientOptions::new(url, key))
    }

    /// A client with settings of one's own.
    pub fn with_options(options: ClientOptions) -> Result<Self> {
        let mut base = Url::parse(&options.url)
            .map_err(|problem| ClientError::Settings(format!("'{}' is no URL: {problem}", options.url)))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(ClientError::Settings(format!(
                "'{}' is no server's URL; it looks like http://127.0.0.1:7700",
                options.url
            )));
        }
        base.set_query(None);
        base.set_fragment(None);
        let authorization = match &options.key {
            None => None,
            Some(key) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", key.trim())).map_err(|_| {
                    ClientError::Settings("the key has characters that no key has".to_owned())
                })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let http = reqwest::Client::builder()
            .connect_timeout(options.connect_timeout)
            .user_agent(concat!("docket-client/", env!("CARGO_PKG_VERSION")))
            // A redirect would carry a body and a key to where nobody said they may go.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|problem| ClientError::Settings(format!("no HTTP client can be made: {problem}")))?;
        Ok(Self {
            inner: Arc::new(Inner {
                http,
                base,
                authorization,
                timeout: options.timeout,
                retry: options.retry,
                random: options.random,
            }),
        })
    }

    /// The same client with other rules for repeating calls.
    #[must_use]
    pub fn with_retry(&self, retry: RetryPolicy) -> Self {
        let inner = &self.inner;
        Self {
            inner: Arc::new(Inner {
                http: inner.http.clone(),
                base: inner.base.clone(),
                authorization: inner.authorization.clone(),
                timeout: inner.timeout,
                retry,
                random: Arc::clone(&inner.random),
            }),
        }
    }

    /// Where the server is, without anything secret.
    pub fn server(&self) -> String {
        let mut shown = self.inner.base.clone();
        // What a URL cannot have cannot be taken out of it either.
        if shown.set_password(None).is_err() || shown.set_username("").is_err() {
            return self.inner.base.host_str().unwrap_or_default().to_owned();
        }
        shown.as_str().trim_end_matches('/').to_owned()
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        self.inner.retry
    }

    pub(crate) fn random(&self) -> &dyn Random {
        &*self.inner.random
    }

    /// A new idempotency key: 128 random bits.
    pub fn idempotency_key(&self) -> String {
        format!(
            "{:016x}{:016x}",
            self.random().next_u64(),
            self.random().next_u64()
        )
    }

    /// A URL below the server's. Each segment is escaped by itself, so that no id can name another path.
    pub(crate) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.inner.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }

    pub(crate) fn call(&self, method: Method, segments: &[&str]) -> Call {
        Call {
            repeatable: method == Method::GET,
            method,
            url: self.url(segments),
            body: None,
            headers: HeaderMap::new(),
            timeout: None,
        }
    }

    pub(crate) fn get(&self, segments: &[&str]) -> Call {
        self.call(Method::GET, segments)
    }

    /// A call with a JSON body.
    pub(crate) fn with_json(&self, method: Method, segments: &[&str], body: &impl Serialize) -> Result<Call> {
        let text = serde_json::to_vec(body)
            .map_err(|problem| ClientError::Settings(format!("the request cannot be written: {problem}")))?;
        let mut call = self.call(method, segments);
        call.body = Some(text.into());
        call.headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(call)
    }

    pub(crate) fn post(&self, segments: &[&str], body: &impl Serialize) -> Result<Call> {
        self.with_json(Method::POST, segments, body)
    }

    /// Makes a call and reads its answer.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let response = self.send(call).await?;
        self.read(response).await
    }

    /// Makes a call of which only the success matters.
    pub(crate) async fn tell(&self, call: Call) -> Result<()> {
        self.send(call).await.map(drop)
    }

    /// Makes a call, again where that is safe and may help.
    pub(crate) async fn send(&self, call: Call) -> Result<Response> {
        let mut made = 0;
        loop {
            made += 1;
            let error = match self.send_once(&call).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            match self
                .inner
                .retry
                .wait(made, call.repeatable, &error, self.random())
            {
                None => return Err(error),
                Some(wait) => {
                    tracing::debug!(%error, wait_ms = wait.as_millis(), path = call.url.path(), "a call is made again");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    async fn send_once(&self, call: &Call) -> Result<Response> {
        let mut request = self
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone());
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        let request = request.timeout(call.timeout.unwrap_or(self.inner.timeout));
        let response = request.send().await.map_err(|error| self.transport(error))?;
        self.accept(response).await
    }

    /// A request with the key. It goes along only to the server that it is for.
    pub(crate) fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let ours = url.origin() == self.inner.base.origin();
        let request = self.inner.http.request(method, url);
        match &self.inner.authorization {
            Some(value) if ours => request.header(AUTHORIZATION, value.clone()),
            _ => request,
        }
    }

    /// Lets a success through and reads anything else as a problem.
    pub(crate) async fn accept(&self, response: Response) -> Result<Response> {
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let retry_after = header(&response, RETRY_AFTER.as_str())
            .and_then(|text| text.trim().parse().ok())
            .map(Duration::from_secs);
        let request_id = header(&response, "x-request-id");
        // The status says enough; a body that breaks off is no reason to say less.
        let body = self.bytes(response, PROBLEM_MAX).await.unwrap_or_default();
        Err(ClientError::Problem(Box::new(Problem::read(
            status,
            retry_after,
            request_id,
            &body,
        ))))
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        let body = self.bytes(response, ANSWER_MAX).await?;
        serde_json::from_slice(&body).map_err(|problem| self.unreadable(&problem.to_string()))
    }

    async fn bytes(&self, mut response: Response, max: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.transport(error))? {
            if body.len() + piece.len() > max {
                return Err(self.unreadable(&format!("more than {max} bytes")));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    pub(crate) fn unreadable(&self, problem: &str) -> ClientError {
        ClientError::Decode {
            server: self.server(),
            problem: problem.to_owned(),
        }
    }

    pub(crate) fn transport(&self, error: reqwest::Error) -> ClientError {
        ClientError::Transport {
            server: self.server(),
            reached: !error.is_connect(),
            source: error.without_url(),
        }
    }
}

pub(crate) fn header(response: &Response, name: &str) -> Option<String> {
    response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_escaped_into_one_segment() {
        let client = Client::new("http://localhost:7700/docket/", None).unwrap();
        let url = client.url(&["api", "v1", "items", "a/../b?c"]);
        assert_eq!(
            url.as_str(),
            "http://localhost:7700/docket/api/v1/items/a%2F..%2Fb%3Fc"
        );
    }

    #[test]
    fn the_key_goes_to_the_server_and_to_nobody_else() {
        let client = Client::new("http://localhost:7700", Some("dk_secret".to_owned())).unwrap();
        let sent = |url: &str| {
            let request = client
                .request(Method::GET, Url::parse(url).unwrap())
                .build()
                .unwrap();
            request.headers().contains_key(AUTHORIZATION)
        };
        assert!(sent("http://localhost:7700/api/v1/items"));
        assert!(!sent("http://elsewhere:7700/api/v1/items"));
        assert!(!sent("https://localhost:7700/api/v1/items"));
        assert!(!format!("{client:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_url_is_refused_with_an_example() {
        for url in ["localhost:7700", "ftp://host", "", "http://"] {
            assert!(
                matches!(Client::new(url, None), Err(ClientError::Settings(_))),
                "{url}"
            );
        }
    }
}
