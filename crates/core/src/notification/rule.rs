//! A collection's rule for who is told of decided reviews (rule N11).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::read_recipients;
use crate::notify::{BODY_MAX, OnUnknown, Recipient};
use crate::refusal::{Refusal, Refused};
use crate::review::Outcome;

/// The most recipients of a rule: every decision makes a message for each.
const RULE_RECIPIENTS_MAX: usize = 100;
/// The longest template of a subject, in bytes.
pub const SUBJECT_TEMPLATE_MAX: usize = 4_096;

/// Who is told of decided reviews, and in which words. Written as on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotifyRule {
    /// Who is told: `email:a@example.com`, `webhook:https://…`.
    pub recipients: Vec<String>,
    /// Of which outcomes.
    pub on: Vec<Outcome>,
    /// What becomes of a message of which nobody can tell whether it was sent; none: as the channel has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknown>,
    /// A template of the subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// A template of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

impl NotifyRule {
    /// The rule in a collection's settings.
    pub fn of_settings(settings: &Value) -> Refused<Option<Self>> {
        match settings.get("notify") {
            None | Some(Value::Null) => Ok(None),
            Some(rule) => Self::deserialize(rule)
                .map(Some)
                .map_err(|error| Refusal::invalid("notify", error.to_string())),
        }
    }

    /// Its recipients, or what is wrong with it; templates are checked by those who render them.
    pub fn check(&self) -> Refused<Vec<Recipient>> {
        if let Some(index) = (1..self.on.len()).find(|index| self.on[..*index].contains(&self.on[*index])) {
            return Err(Refusal::invalid(format!("on[{index}]"), "is named twice"));
        }
        if self.recipients.len() > RULE_RECIPIENTS_MAX {
            let problem = format!("at most {RULE_RECIPIENTS_MAX} are taken");
            return Err(Refusal::invalid("recipients", problem));
        }
        let recipients = read_recipients(&self.recipients, &[])?;
        if self.on.is_empty() {
            return Err(Refusal::invalid("on", "needs at least one outcome"));
        }
        for (path, template, max) in [
            ("subject", &self.subject, SUBJECT_TEMPLATE_MAX),
            ("body", &self.body, BODY_MAX),
        ] {
            if template.as_ref().is_some_and(|template| template.len() > max) {
                return Err(Refusal::invalid(path, format!("must have at most {max} bytes")));
            }
        }
        Ok(recipients.into_iter().map(|(recipient, _)| recipient).collect())
    }

    /// Whether a decision with this outcome is told.
    pub fn tells(&self, outcome: Outcome) -> bool {
        self.on.contains(&outcome)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_read_from_settings_and_checked() {
        let read = |rule: Value| NotifyRule::of_settings(&json!({ "notify": rule }));
        assert_eq!(NotifyRule::of_settings(&json!({})), Ok(None));
        let rule = read(json!({ "recipients": ["file:a"], "on": ["approved"] }))
            .unwrap()
            .unwrap();
        assert!(rule.check().is_ok());
        assert!(rule.tells(Outcome::Approved) && !rule.tells(Outcome::Rejected));
        for bad in [
            json!({ "recipients": [], "on": ["approved"] }),
            json!({ "recipients": ["file:a"], "on": [] }),
            json!({ "recipients": ["file:a", "file:a"], "on": ["approved"] }),
            json!({ "recipients": vec!["file:a"; 101], "on": ["approved"] }),
            json!({ "recipients": ["file:a"], "on": ["approved"], "subject": "x".repeat(5_000) }),
        ] {
            assert!(read(bad.clone()).unwrap().unwrap().check().is_err(), "{bad}");
        }
        assert!(read(json!({ "recipients": ["file:a"], "on": ["perhaps"] })).is_err());
    }
}
