//! The token that a message is sent with, derived from what the delivery is about: whoever makes the same delivery again, after a
//! crash or from a backup, sends the same token, and a provider that dedupes sees the same message.

use crate::notify::{DeliveryToken, Recipient};

/// The token of a delivery. `owner` is the tenant, empty for the deployment's own; `nonce` is empty until a person resends.
pub fn delivery_token(
    owner: &str,
    changelist_id: &str,
    recipient: &Recipient,
    review_version: i64,
    nonce: &str,
) -> DeliveryToken {
    let (recipient, version) = (recipient.to_string(), review_version.to_string());
    DeliveryToken::derive(&["docket", owner, changelist_id, &recipient, &version, nonce])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn token(owner: &str, subject: &str, recipient: &str, version: i64, nonce: &str) -> DeliveryToken {
        let recipient = Recipient::parse(recipient).unwrap();
        delivery_token(owner, subject, &recipient, version, nonce)
    }

    #[test]
    fn the_same_delivery_has_the_same_token_and_any_other_another() {
        let first = ("acme", "CL-1", "email:a@example.com", 1, "");
        let keys = [
            first,
            ("", "CL-1", "email:a@example.com", 1, ""),
            ("acme", "CL-2", "email:a@example.com", 1, ""),
            ("acme", "CL-1", "email:b@example.com", 1, ""),
            ("acme", "CL-1", "email:a@example.com", 2, ""),
            ("acme", "CL-1", "email:a@example.com", 1, "again"),
            ("acmeCL-1", "", "email:a@example.com", 1, ""),
            ("acme", "CL-1", "email:a@example.com", 11, ""),
        ];
        let tokens: HashSet<_> = keys
            .iter()
            .map(|key| token(key.0, key.1, key.2, key.3, key.4))
            .collect();
        assert_eq!(tokens.len(), keys.len());
        assert!(tokens.contains(&token("acme", "CL-1", "email:a@EXAMPLE.com", 1, "")));
    }

    #[test]
    fn the_derivation_never_changes() {
        // A provider remembers tokens for longer than a release lasts.
        let token = token("acme", "CL-1", "email:a@example.com", 1, "");
        assert_eq!(token.as_str(), "dlv_a681a56f37f975c664403b0a3758a63980b7c62a");
    }
}
