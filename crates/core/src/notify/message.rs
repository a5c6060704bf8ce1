//! What a notification says.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::name::{TEXT_MAX, check_text};
use crate::refusal::{Refusal, Refused};

/// The longest subject line taken, in characters.
pub const SUBJECT_MAX: usize = 500;
/// The longest body taken, in bytes.
pub const BODY_MAX: usize = 256 << 10;

/// One message, the same for all its recipients. Its parts were checked: none can break out of a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    changelist_id: String,
    review_version: u64,
    subject: String,
    body: String,
    created_at: Timestamp,
}

impl Message {
    /// A message about one version of one subject, made at `created_at`; or what is wrong with it.
    pub fn new(
        changelist_id: impl Into<String>,
        review_version: u64,
        subject: impl Into<String>,
        body: impl Into<String>,
        created_at: Timestamp,
    ) -> Refused<Self> {
        let message = Self {
            changelist_id: changelist_id.into(),
            review_version,
            subject: subject.into(),
            body: body.into(),
            created_at,
        };
        check_text("changelistId", &message.changelist_id, TEXT_MAX)?;
        check_text("subject", &message.subject, SUBJECT_MAX)?;
        check_body(&message.body)?;
        Ok(message)
    }

    /// What it is about.
    pub fn changelist_id(&self) -> &str {
        &self.changelist_id
    }

    /// Which version of it.
    pub const fn review_version(&self) -> u64 {
        self.review_version
    }

    /// One line.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Plain text, with line breaks.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// When the notification was made; what is rendered bears this time, however late it is sent.
    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }
}

fn check_body(body: &str) -> Refused<()> {
    if body.len() > BODY_MAX {
        return Err(Refusal::TooLarge {
            what: "body".into(),
            size: body.len() as u64,
            limit: BODY_MAX as u64,
        });
    }
    let allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    if !body.chars().all(allowed) {
        return Err(Refusal::invalid(
            "body",
            "must not contain control characters other than line breaks and tabs",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_one_line_and_a_body_is_text() {
        let make = |subject: &str, body: &str| Message::new("cl-7", 1, subject, body, Timestamp::from_ms(0));
        assert!(make("Änderung 7 ist geprüft ✓", "One\r\ntwo\tthree\n").is_ok());
        assert!(make("No body", "").is_ok());
        for (subject, body, path) in [
            ("a\r\nBcc: eve@example.com", "", "subject"),
            ("a\nb", "", "subject"),
            ("a\0b", "", "subject"),
            ("", "", "subject"),
            (&"x".repeat(SUBJECT_MAX + 1), "", "subject"),
            ("a", "nul \0", "body"),
            ("a", "escape \u{1b}[2J", "body"),
        ] {
            let refusal = make(subject, body).unwrap_err();
            assert!(refusal.to_string().starts_with(path), "{refusal}");
        }
        let refusal = make("a", &"x".repeat(BODY_MAX + 1)).unwrap_err();
        assert_eq!(refusal.code(), "payload_too_large");
    }
}
