//! What a notification may be made of.

use std::collections::HashMap;

use crate::content::check_no_nul;
use crate::refusal::{Refusal, Refused};

/// The most recipients of one notification.
pub const RECIPIENTS_MAX: usize = 1_000;
/// The longest recipient, in characters.
pub const RECIPIENT_MAX: usize = 2_000;
/// The longest subject, in characters.
pub const SUBJECT_MAX: usize = 512;
/// The longest body, in bytes.
pub const BODY_MAX: usize = 65_536;

/// Checks how many recipients there are, the required ones first, and that none is named twice.
pub fn check_recipients(required: &[String], optional: &[String]) -> Refused<()> {
    if required.is_empty() {
        return Err(Refusal::invalid("recipients", "needs at least one recipient"));
    }
    if required.len() + optional.len() > RECIPIENTS_MAX {
        let problem = format!(
            "at most {RECIPIENTS_MAX} recipients are taken in one notification, not {}",
            required.len() + optional.len()
        );
        return Err(Refusal::invalid("recipients", problem));
    }
    let named = required.iter().enumerate().map(|(n, to)| ("recipients", n, to));
    let optional = optional
        .iter()
        .enumerate()
        .map(|(n, to)| ("optionalRecipients", n, to));
    let mut seen = HashMap::new();
    for (list, n, recipient) in named.chain(optional) {
        let path = format!("{list}[{n}]");
        if recipient.chars().count() > RECIPIENT_MAX {
            let problem = format!("must have at most {RECIPIENT_MAX} characters");
            return Err(Refusal::invalid(path, problem));
        }
        if let Some(first) = seen.insert(recipient.as_str(), path.clone()) {
            return Err(Refusal::invalid(path, format!("is the same as {first}")));
        }
    }
    Ok(())
}

/// Checks a subject and a body.
pub fn check_message(subject: &str, body: &str) -> Refused<()> {
    crate::name::check_text("subject", subject, SUBJECT_MAX)?;
    if body.len() > BODY_MAX {
        return Err(Refusal::TooLarge {
            what: "body".into(),
            size: body.len() as u64,
            limit: BODY_MAX as u64,
        });
    }
    check_no_nul("body", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_bounded_named_once_and_one_is_required() {
        let list = |n: usize| (0..n).map(|n| format!("file:{n}")).collect::<Vec<_>>();
        assert!(check_recipients(&list(RECIPIENTS_MAX), &[]).is_ok());
        let long = [format!("file:{}", "x".repeat(RECIPIENT_MAX))];
        for (required, optional) in [
            (list(0), list(1)),
            (list(10_000), list(0)),
            (list(1), list(RECIPIENTS_MAX)),
            (list(2), list(1)),
            ([list(1), list(1)].concat(), list(0)),
            (long.to_vec(), list(0)),
        ] {
            let refused = check_recipients(&required, &optional).unwrap_err();
            assert_eq!(refused.code(), "validation_failed");
        }
    }

    #[test]
    fn a_message_has_a_subject_and_bounds() {
        assert!(check_message("Done", "").is_ok());
        for (subject, body) in [("", ""), ("a\nb", ""), ("a", "\0")] {
            assert!(check_message(subject, body).is_err());
        }
        let large = "x".repeat(BODY_MAX + 1);
        assert_eq!(
            check_message("a", &large).unwrap_err().code(),
            "payload_too_large"
        );
    }
}
