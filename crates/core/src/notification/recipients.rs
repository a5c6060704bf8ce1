//! Whom a notification may tell.

use std::collections::HashMap;

use crate::notify::Recipient;
use crate::refusal::{Refusal, Refused};

/// The most recipients of one notification.
pub const RECIPIENTS_MAX: usize = 1_000;

/// Reads the recipients, the required ones first, each with whether it is required; or says what is wrong with them.
pub fn read_recipients(required: &[String], optional: &[String]) -> Refused<Vec<(Recipient, bool)>> {
    if required.is_empty() {
        return Err(Refusal::invalid("recipients", "needs at least one recipient"));
    }
    let count = required.len() + optional.len();
    if count > RECIPIENTS_MAX {
        let problem =
            format!("at most {RECIPIENTS_MAX} recipients are taken in one notification, not {count}");
        return Err(Refusal::invalid("recipients", problem));
    }
    let lists = [
        ("recipients", required, true),
        ("optionalRecipients", optional, false),
    ];
    let (mut seen, mut read) = (HashMap::with_capacity(count), Vec::with_capacity(count));
    for (list, texts, is_required) in lists {
        for (place, text) in texts.iter().enumerate() {
            let path = format!("{list}[{place}]");
            let recipient = Recipient::parse(text).map_err(|refusal| match refusal {
                Refusal::Invalid { problem, .. } => Refusal::invalid(path.clone(), problem),
                other => other,
            })?;
            if let Some(first) = seen.insert(recipient.clone(), path.clone()) {
                return Err(Refusal::invalid(path, format!("is the same as {first}")));
            }
            read.push((recipient, is_required));
        }
    }
    Ok(read)
}

/// The host that a message goes to, or what stands for it: sends to the same one are limited together.
pub fn destination(recipient: &Recipient) -> &str {
    match recipient {
        // All mail goes to the one server that is configured.
        Recipient::Email(_) => "",
        Recipient::Webhook(webhook) => webhook.url().host_str().unwrap_or_default(),
        Recipient::File(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(n: usize) -> Vec<String> {
        (0..n).map(|n| format!("file:{n}")).collect()
    }

    #[test]
    fn recipients_are_bounded_named_once_and_one_is_required() {
        assert!(read_recipients(&list(RECIPIENTS_MAX), &[]).is_ok());
        let spelt_twice = ["email:a@example.com", "email:a@EXAMPLE.com"].map(str::to_owned);
        for (required, optional) in [
            (list(0), list(1)),
            (list(10_000), list(0)),
            (list(1), list(RECIPIENTS_MAX)),
            (list(2), list(1)),
            ([list(1), list(1)].concat(), list(0)),
            (spelt_twice.to_vec(), list(0)),
            (vec!["nobody".to_owned()], list(0)),
        ] {
            let refused = read_recipients(&required, &optional).unwrap_err();
            assert_eq!(refused.code(), "validation_failed");
        }
        let refused = read_recipients(&list(1), &["nobody".to_owned()]).unwrap_err();
        assert!(
            refused.to_string().starts_with("optionalRecipients[0]"),
            "{refused}"
        );
    }

    #[test]
    fn messages_to_one_host_share_a_destination() {
        for (recipient, host) in [
            ("email:a@example.com", ""),
            ("email:b@example.org", ""),
            ("webhook:https://Example.com:8443/hook", "example.com"),
            ("file:x", ""),
        ] {
            assert_eq!(destination(&Recipient::parse(recipient).unwrap()), host);
        }
    }
}
