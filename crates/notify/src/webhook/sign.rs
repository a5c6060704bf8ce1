//! Signatures by the Standard Webhooks specification: HMAC-SHA256 over `id.timestamp.body`.
//!
//! With several secrets a request bears a signature by each: receivers that still have the old one and those that have the new
//! one both find theirs.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use docket_core::notify::DeliveryToken;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::{ConfigError, Secret};

/// The lengths of a key that the specification allows, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The keys, ready to sign.
pub(super) struct Signer(Vec<Hmac<Sha256>>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} keys)", self.0.len())
    }
}

impl Signer {
    /// Takes secrets as they are handed out: `whsec_` and base64.
    pub(super) fn new(secrets: &[Secret]) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::new("secret", "must be whsec_ and the base64 of 24 to 64 random bytes");
        if secrets.is_empty() {
            return Err(wrong());
        }
        let key = |secret: &Secret| {
            let text = secret.reveal().strip_prefix("whsec_").ok_or_else(wrong)?;
            let bytes = BASE64_STANDARD.decode(text).map_err(|_| wrong())?;
            if !KEY_BYTES.contains(&bytes.len()) {
                return Err(wrong());
            }
            Hmac::new_from_slice(&bytes).map_err(|_| wrong())
        };
        secrets.iter().map(key).collect::<Result<_, _>>().map(Self)
    }

    /// The header `webhook-signature`.
    pub(super) fn sign(&self, token: &DeliveryToken, seconds: i64, body: &[u8]) -> String {
        let signature = |key: &Hmac<Sha256>| {
            let mut mac = key.clone();
            mac.update(format!("{token}.{seconds}.").as_bytes());
            mac.update(body);
            format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
        };
        self.0.iter().map(signature).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_are_none_are_refused_without_being_shown() {
        for secret in [
            "",
            "whsec_",
            "whsec_c2hvcnQ=",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_not base64 at all, but long enough",
        ] {
            let error = Signer::new(&[Secret::new(secret)]).unwrap_err();
            assert!(secret.len() < 8 || !error.to_string().contains(secret), "{error}");
        }
        assert!(Signer::new(&[]).is_err());
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let signer = Signer::new(std::slice::from_ref(&secret)).unwrap();
        assert!(!format!("{secret:?} {signer:?}").contains("MfKQ"));
    }
}
