//! The token that a message is sent with, derived from what the delivery is about: whoever makes the same delivery again, after a
//! crash or from a backup, sends the same token, and a provider that dedupes sees the same message.

use crate::content::Hasher;

const PREFIX: &str = "dlv_";
/// 160 bits are enough never to meet by chance, and short enough for a header and a mail's Message-ID.
const DIGITS: usize = 40;

/// The token of a delivery. `owner` is the tenant, empty for the deployment's own; `nonce` is empty until a person resends.
pub fn delivery_token(
    owner: &str,
    changelist_id: &str,
    recipient: &str,
    review_version: i64,
    nonce: &str,
) -> String {
    let mut hasher = Hasher::default();
    hasher.update(b"docket delivery 1");
    // Lengths first, so that no two keys give the same bytes.
    for part in [owner, changelist_id, recipient, nonce] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.update(&review_version.to_be_bytes());
    let digest = hasher.finish().to_string();
    format!("{PREFIX}{}", &digest[..DIGITS])
}

/// Whether a text can be a token.
pub fn is_token(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == DIGITS
            && digits
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_same_delivery_has_the_same_token_and_any_other_another() {
        let token = delivery_token("acme", "CL-1", "email:a@example.com", 1, "");
        assert_eq!(
            token,
            delivery_token("acme", "CL-1", "email:a@example.com", 1, "")
        );
        assert!(is_token(&token), "{token}");
        let others = [
            ("", "CL-1", "email:a@example.com", 1, ""),
            ("acme", "CL-2", "email:a@example.com", 1, ""),
            ("acme", "CL-1", "email:b@example.com", 1, ""),
            ("acme", "CL-1", "email:a@example.com", 2, ""),
            ("acme", "CL-1", "email:a@example.com", 1, "again"),
            ("acmeCL-1", "", "email:a@example.com", 1, ""),
            ("acme", "CL-1email:", "a@example.com", 1, ""),
        ];
        let tokens: HashSet<_> = others
            .iter()
            .map(|(owner, subject, recipient, version, nonce)| {
                delivery_token(owner, subject, recipient, *version, nonce)
            })
            .chain([token])
            .collect();
        assert_eq!(tokens.len(), others.len() + 1);
    }

    #[test]
    fn the_derivation_never_changes() {
        // A provider remembers tokens for longer than a release lasts.
        assert_eq!(
            delivery_token("acme", "CL-1", "email:a@example.com", 1, ""),
            "dlv_PIN"
        );
    }

    #[test]
    fn what_is_no_token_is_told_apart() {
        for text in ["", "dlv_", "dlv_xyz", "DLV_0000000000000000000000000000000000000000"] {
            assert!(!is_token(text), "{text}");
        }
    }
}
