//! How webhooks are sent.

use std::time::Duration;

use docket_core::notify::{DeliveryToken, OnUnknown, WebhookUrl};
use url::Url;

use crate::{ConfigError, Secret, check_timeout};

const TIMEOUT: Duration = Duration::from_secs(15);
/// A receiver that is asked at once may still be at work on the request.
const LOOKUP_LAG: Duration = Duration::from_secs(5);
const SECRETS_MAX: usize = 10;

/// The settings of `[channels.webhook]`.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// What requests are signed with: the present secret, then older ones that receivers may still use.
    pub secrets: Vec<Secret>,
    /// Whether plain http and addresses that are not public are allowed.
    pub allow_private: bool,
    /// How long connecting may take, and then again the answer.
    pub timeout: Duration,
    /// Where receivers can be asked about a token.
    pub lookup: Option<WebhookUrl>,
    /// How long after a send a lookup may still answer that there was none.
    pub lookup_lag: Duration,
    /// For how long all receivers take a repeated `webhook-id` for the same delivery.
    pub idempotent_for: Option<Duration>,
    /// What is done with what is unknown, unless the collection says otherwise.
    pub on_unknown: OnUnknown,
    /// Certificates (PEM) that are trusted besides the system's.
    pub trusted_pem: Option<Vec<u8>>,
}

impl WebhookConfig {
    /// Settings with this secret (`whsec_…`); the rest is as usual.
    pub fn new(secret: Secret) -> Self {
        Self {
            secrets: vec![secret],
            allow_private: false,
            timeout: TIMEOUT,
            lookup: None,
            lookup_lag: LOOKUP_LAG,
            idempotent_for: None,
            on_unknown: OnUnknown::default(),
            trusted_pem: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.secrets.len() > SECRETS_MAX {
            let problem = format!("at most {SECRETS_MAX} secrets are taken");
            return Err(ConfigError::new("previous_secrets", problem));
        }
        check_timeout(self.timeout)
    }

    /// Where to ask about this token.
    pub(super) fn lookup_url(&self, token: &DeliveryToken) -> Option<Url> {
        let mut url = self.lookup.as_ref()?.url().clone();
        url.path_segments_mut().ok()?.pop_if_empty().push(token.as_str());
        Some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_asked_for_below_the_lookup_url() {
        let token = DeliveryToken::new("dlv_1").unwrap();
        let mut config = WebhookConfig::new(Secret::new("whsec_"));
        assert_eq!(config.lookup_url(&token), None);
        for (url, asked) in [
            (
                "https://receiver.example/lookup",
                "https://receiver.example/lookup/dlv_1",
            ),
            (
                "https://receiver.example/lookup/",
                "https://receiver.example/lookup/dlv_1",
            ),
            (
                "https://receiver.example/?key=1",
                "https://receiver.example/dlv_1?key=1",
            ),
        ] {
            config.lookup = Some(WebhookUrl::parse(url).unwrap());
            assert_eq!(config.lookup_url(&token).unwrap().as_str(), asked);
        }
    }
}
