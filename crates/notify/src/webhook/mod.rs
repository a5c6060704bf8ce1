//! Webhooks, signed by the Standard Webhooks specification.
//!
//! | what happens | it is |
//! |---|---|
//! | a rule of ours: a private address, a scheme or port that is not allowed | permanent |
//! | no name, no connection, no TLS | not sent: not a byte of the request was written |
//! | 2xx | accepted; the answer's `id` is the notificationId, else the token |
//! | 408, 421, 425, 429 | transient, with `Retry-After` |
//! | 410 | permanent, and the recipient is gone |
//! | 3xx, other 4xx | permanent: redirects are not followed |
//! | 5xx | **unknown**: a receiver may fail after it has acted |
//! | silence or a broken connection once the request was begun; an answer that is not HTTP | **unknown** |
//!
//! A receiver that treats `webhook-id` as the specification recommends makes the unknown harmless: `idempotent_for` says for how
//! long, and the dispatcher may send again. Another can be asked, by `lookup_url`.
//!
//! Deliberately absent: a pool of connections, redirects, cookies, proxies from the environment.

mod answer;
mod config;
mod guard;
mod sign;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use docket_core::Clock;
use docket_core::notify::{ChannelKind, DeliveryToken, Message, Recipient};
use docket_core::refusal::{Refusal, Refused};
use docket_wire::Time;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, RequestBuilder, Response, retry};
use serde::Serialize;

use crate::{Abilities, Channel, ConfigError, Found, Frozen, Lookup, Sent, Words, retry_after};
use answer::Answer;
use guard::{Forbidden, Guard};
use sign::Signer;

pub use config::WebhookConfig;
pub use guard::{Names, SystemNames};

/// The most that is read of an answer, and for how long.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Signed HTTP requests.
pub struct WebhookChannel {
    config: WebhookConfig,
    signer: Signer,
    guard: Guard,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for WebhookChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookChannel")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// What a receiver gets, in the form that the specification recommends.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    r#type: &'static str,
    timestamp: Time,
    data: PayloadData<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PayloadData<'a> {
    changelist_id: &'a str,
    review_version: u64,
    subject: &'a str,
    body: &'a str,
}

impl WebhookChannel {
    /// A channel by these settings, with the system's names.
    pub fn new(config: WebhookConfig, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        Self::with_names(config, clock, Arc::new(SystemNames))
    }

    /// A channel that finds addresses by other names.
    pub fn with_names(
        config: WebhookConfig,
        clock: Arc<dyn Clock>,
        names: Arc<dyn Names>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let guard = Guard::new(names, config.allow_private);
        let mut client = Client::builder()
            .user_agent(concat!("docket/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .http1_only()
            .pool_max_idle_per_host(0)
            .connect_timeout(config.timeout)
            .dns_resolver(Arc::new(guard.clone()));
        if let Some(pem) = &config.trusted_pem {
            let certificates = Certificate::from_pem_bundle(pem)
                .map_err(|error| ConfigError::new("ca_file", error.to_string()))?;
            client = client.tls_certs_merge(certificates);
        }
        Ok(Self {
            signer: Signer::new(&config.secrets)?,
            client: client
                .build()
                .map_err(|error| ConfigError::new("webhook", error.to_string()))?,
            guard,
            config,
            clock,
        })
    }

    async fn post(&self, frozen: &Frozen) -> Sent {
        let Recipient::Webhook(target) = &frozen.recipient else {
            return permanent("the recipient is no webhook");
        };
        if let Err(forbidden) = self.guard.check_url(target.url()) {
            return permanent(forbidden.to_string());
        }
        let mut request = self.client.post(target.url().clone());
        for (name, value) in &frozen.headers {
            request = request.header(name, value);
        }
        let request = self.signed(request, &frozen.token, &frozen.body);
        match self.answer(request.body(frozen.body.clone())).await {
            Ok(answer) => answer.to_send(&frozen.token),
            Err(NoAnswer::Forbidden(words)) => permanent(words),
            Err(NoAnswer::Unconnected(words)) => Sent::NotSent {
                words: Words::new(words),
            },
            Err(NoAnswer::Lost(words)) => Sent::Unknown {
                retry_after: None,
                words: Words::new(words),
            },
        }
    }

    async fn ask(&self, token: &DeliveryToken) -> Found {
        let unknown = |words: String| Found::Unknown {
            retry_after: None,
            words: Words::new(words),
        };
        let Some(url) = self.config.lookup_url(token) else {
            return unknown("no lookup_url is configured: the receiver cannot be asked".to_owned());
        };
        if let Err(forbidden) = self.guard.check_url(&url) {
            return unknown(forbidden.to_string());
        }
        let request = self.signed(self.client.get(url), token, b"");
        match self.answer(request).await {
            Ok(answer) => answer.to_lookup(),
            Err(NoAnswer::Forbidden(words) | NoAnswer::Unconnected(words) | NoAnswer::Lost(words)) => {
                unknown(words)
            }
        }
    }

    /// The request with the headers that differ from one attempt to the next: receivers refuse old timestamps.
    fn signed(&self, request: RequestBuilder, token: &DeliveryToken, body: &[u8]) -> RequestBuilder {
        let seconds = self.clock.now().ms().div_euclid(1000);
        request
            .header("webhook-id", token.as_str())
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", self.signer.sign(token, seconds, body))
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Answer, NoAnswer> {
        // Connecting has a time-out of its own; what is left is the answer's.
        let response = match tokio::time::timeout(self.config.timeout * 2, request.send()).await {
            Err(_) => return Err(NoAnswer::Lost("no answer came in time".to_owned())),
            Ok(Err(error)) => return Err(NoAnswer::by(error)),
            Ok(Ok(response)) => response,
        };
        let header = response.headers().get(RETRY_AFTER);
        let retry_after = header
            .and_then(|header| header.to_str().ok())
            .and_then(|header| retry_after::parse(header, self.clock.now()));
        Ok(Answer {
            status: response.status(),
            retry_after,
            body: read_some(response).await,
        })
    }
}

/// Why there is no answer.
enum NoAnswer {
    /// A rule of ours forbids the address.
    Forbidden(String),
    /// The request was not begun.
    Unconnected(String),
    /// The request was begun.
    Lost(String),
}

impl NoAnswer {
    fn by(error: reqwest::Error) -> Self {
        let connected = !error.is_connect() && !error.is_builder();
        // The URL is in the delivery already, and may hold what is nobody's business.
        let error = error.without_url();
        let mut words = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(forbidden) = cause.downcast_ref::<Forbidden>() {
                return Self::Forbidden(forbidden.to_string());
            }
            words = format!("{words}: {cause}");
            source = cause.source();
        }
        match connected {
            true => Self::Lost(words),
            false => Self::Unconnected(words),
        }
    }
}

/// The beginning of the answer's body. The status has come: what is missing of the body changes nothing about it.
async fn read_some(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ANSWER_BYTES_MAX - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
    };
    let _in_time = tokio::time::timeout(ANSWER_WAIT, reading).await;
    body
}

fn permanent(words: impl AsRef<str>) -> Sent {
    Sent::Permanent {
        gone: false,
        words: Words::new(words),
    }
}

impl Channel for WebhookChannel {
    fn kind(&self) -> ChannelKind {
        ChannelKind::Webhook
    }

    /// A receiver knows of its own messages, not of those to other hosts.
    fn knows(&self, recipient: &Recipient) -> bool {
        let asked = self
            .config
            .lookup
            .as_ref()
            .and_then(|lookup| lookup.url().host_str());
        match recipient {
            Recipient::Webhook(target) => target.url().host_str() == asked,
            _ => false,
        }
    }

    fn patience(&self) -> Duration {
        self.config.timeout * 2
    }

    fn abilities(&self) -> Abilities {
        let lag = self.config.lookup_lag;
        Abilities {
            idempotent_for: self.config.idempotent_for,
            lookup: self.config.lookup.as_ref().map(|_| Lookup { lag }),
            on_unknown: self.config.on_unknown,
        }
    }

    fn render(&self, message: &Message, recipient: &Recipient, token: &DeliveryToken) -> Refused<Frozen> {
        let Recipient::Webhook(_) = recipient else {
            return Err(Refusal::invalid("recipient", "is no webhook"));
        };
        let payload = Payload {
            r#type: "notification",
            timestamp: message.created_at().into(),
            data: PayloadData {
                changelist_id: message.changelist_id(),
                review_version: message.review_version(),
                subject: message.subject(),
                body: message.body(),
            },
        };
        let body =
            serde_json::to_vec(&payload).map_err(|error| Refusal::invalid("body", error.to_string()))?;
        Ok(Frozen {
            token: token.clone(),
            recipient: recipient.clone(),
            headers: vec![(CONTENT_TYPE.to_string(), "application/json".to_owned())],
            body,
        })
    }

    fn send<'a>(&'a self, frozen: &'a Frozen) -> BoxFuture<'a, Sent> {
        self.post(frozen).boxed()
    }

    fn lookup<'a>(&'a self, token: &'a DeliveryToken) -> BoxFuture<'a, Found> {
        self.ask(token).boxed()
    }
}
