//! What a receiver's answer means.

use std::time::Duration;

use docket_core::notify::DeliveryToken;
use reqwest::StatusCode;
use serde_json::Value;

use crate::{Found, Sent, Words};

/// The longest id taken, in characters.
const ID_MAX: usize = 200;

/// An answer: its status, and the beginning of its body.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// As the answer to a delivery.
    pub(super) fn to_send(&self, token: &DeliveryToken) -> Sent {
        let words = self.words();
        let retry_after = self.retry_after;
        match self.status.as_u16() {
            200..=299 => Sent::Accepted {
                id: self.id().unwrap_or_else(|| token.to_string()),
                words,
            },
            408 | 421 | 425 | 429 => Sent::Transient { retry_after, words },
            410 => Sent::Permanent { gone: true, words },
            300..=499 => Sent::Permanent { gone: false, words },
            _ => Sent::Unknown { retry_after, words },
        }
    }

    /// As the answer to a lookup.
    pub(super) fn to_lookup(&self) -> Found {
        let words = self.words();
        match (self.status, self.id()) {
            (StatusCode::OK, Some(id)) => Found::Found { id, words },
            (StatusCode::NOT_FOUND, _) => Found::Absent { words },
            _ => Found::Unknown {
                retry_after: self.retry_after,
                words,
            },
        }
    }

    /// The `id` of a JSON object, where there is one that can be kept.
    fn id(&self) -> Option<String> {
        let id = match serde_json::from_slice::<Value>(&self.body)
            .ok()?
            .get_mut("id")?
            .take()
        {
            Value::String(id) => id,
            Value::Number(id) => id.to_string(),
            _ => return None,
        };
        let fit = !id.is_empty() && id.chars().count() <= ID_MAX && !id.chars().any(char::is_control);
        fit.then_some(id)
    }

    fn words(&self) -> Words {
        // More than this is not kept anyway.
        let start = &self.body[..self.body.len().min(4 * crate::WORDS_MAX)];
        Words::new(format!("{} {}", self.status, String::from_utf8_lossy(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: Some(Duration::from_secs(7)),
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn a_status_says_whether_it_was_taken() {
        let token = DeliveryToken::new("dlv_1").unwrap();
        for (status, outcome) in [
            (200, "accepted"),
            (202, "accepted"),
            (204, "accepted"),
            (301, "permanent"),
            (307, "permanent"),
            (400, "permanent"),
            (404, "permanent"),
            (408, "transient"),
            (410, "permanent"),
            (425, "transient"),
            (429, "transient"),
            (500, "unknown"),
            (502, "unknown"),
            (503, "unknown"),
            (599, "unknown"),
        ] {
            let sent = answer(status, "").to_send(&token);
            assert_eq!(sent.as_str(), outcome, "{status}");
            assert_eq!(matches!(sent, Sent::Permanent { gone: true, .. }), status == 410);
        }
    }

    #[test]
    fn an_id_is_taken_where_there_is_one_and_else_the_token() {
        let token = DeliveryToken::new("dlv_1").unwrap();
        let long = format!("{{\"id\": \"{}\"}}", "x".repeat(201));
        for (body, id) in [
            (r#"{"id": "msg-7", "more": [1]}"#, "msg-7"),
            (r#"{"id": 7}"#, "7"),
            ("", "dlv_1"),
            ("OK", "dlv_1"),
            ("[]", "dlv_1"),
            (r#"{"id": ""}"#, "dlv_1"),
            (r#"{"id": null}"#, "dlv_1"),
            (r#"{"id": "a\nb"}"#, "dlv_1"),
            (r#"{"id": "cut o"#, "dlv_1"),
            (&long, "dlv_1"),
        ] {
            match answer(200, body).to_send(&token) {
                Sent::Accepted { id: taken, .. } => assert_eq!(taken, id, "{body}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_lookup_is_believed_only_where_it_makes_sense() {
        for (status, body, found) in [
            (200, r#"{"id": "msg-7"}"#, "found"),
            (200, "{}", "unknown"),
            (200, "<html>", "unknown"),
            (404, "", "absent"),
            (404, r#"{"id": "msg-7"}"#, "absent"),
            (410, "", "unknown"),
            (429, "", "unknown"),
            (503, r#"{"id": "msg-7"}"#, "unknown"),
        ] {
            assert_eq!(
                answer(status, body).to_lookup().as_str(),
                found,
                "{status} {body}"
            );
        }
    }
}
