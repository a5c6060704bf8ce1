//! The token that a delivery is sent under: the same for every attempt, so that a provider can recognise a repeat.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::content::Hasher;
use crate::refusal::{Refusal, Refused};

/// The longest token taken, in characters.
const TOKEN_MAX: usize = 128;

/// Names one delivery to a provider (rule N4). It is safe as it is in a header, a Message-ID, a URL and a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeliveryToken(String);

impl DeliveryToken {
    /// Reads a token back.
    pub fn new(text: impl Into<String>) -> Refused<Self> {
        let text = text.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if text.is_empty() || text.len() > TOKEN_MAX || !text.bytes().all(plain) {
            return Err(Refusal::invalid(
                "token",
                format!("must have 1 to {TOKEN_MAX} of the characters A-Z, a-z, 0-9, '_' and '-'"),
            ));
        }
        Ok(Self(text))
    }

    /// The token that follows from a delivery's key. The same parts give the same token, on every server and at every attempt;
    /// where one part ends and the next begins counts too.
    pub fn derive(parts: &[&str]) -> Self {
        let mut hasher = Hasher::default();
        for part in parts {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        let digest = hasher.finish().to_string();
        Self(format!("dlv_{}", &digest[..40]))
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeliveryToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DeliveryToken {
    type Error = Refusal;

    fn try_from(text: String) -> Refused<Self> {
        Self::new(text)
    }
}

impl From<DeliveryToken> for String {
    fn from(token: DeliveryToken) -> Self {
        token.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_follows_from_its_parts_and_from_where_they_end() {
        let token = DeliveryToken::derive(&["acme", "email:a@example.com", "7"]);
        assert_eq!(
            token,
            DeliveryToken::derive(&["acme", "email:a@example.com", "7"])
        );
        assert_eq!(DeliveryToken::new(token.as_str()).unwrap(), token);
        assert_ne!(
            DeliveryToken::derive(&["ab", "c"]),
            DeliveryToken::derive(&["a", "bc"])
        );
        assert_ne!(DeliveryToken::derive(&["ab"]), DeliveryToken::derive(&["ab", ""]));
    }

    #[test]
    fn a_token_has_nothing_that_means_something_elsewhere() {
        for bad in ["", "a b", "a\r\nb", "a/b", "a@b", "ä", &"x".repeat(129)] {
            assert!(DeliveryToken::new(bad).is_err(), "{bad:?}");
        }
    }
}
