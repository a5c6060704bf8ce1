//! What the status of a record says: that it waits, that it was decided, or a word that nobody has explained.
//!
//! Nothing is guessed. A word that is in neither list is refused, since to skip it could lose work and to take it could do work twice.

use serde::Deserialize;
use serde_json::Value;

/// No status, an empty one and null are pending in any case.
const PENDING: [&str; 2] = ["pending", "error"];
const DECIDED: [&str; 8] = [
    "accepted",
    "approved",
    "corrected",
    "decided",
    "declined",
    "done",
    "rejected",
    "reviewed",
];

/// What becomes of records whose status is in no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum UnknownStatus {
    /// They are refused, by the word.
    #[default]
    Refuse,
    /// They wait for a review.
    Pending,
    /// They are skipped.
    Skip,
}

/// What a record's status means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It waits.
    Pending,
    /// It was decided: this is the word.
    Decided(String),
    /// It is skipped for a word that is in no list.
    Skipped,
    /// The word is in no list.
    Unknown(String),
}

/// The words there are, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pending: Vec<String>,
    decided: Vec<String>,
    unknown: UnknownStatus,
}

impl Words {
    /// The usual words and these; what somebody says of a usual word counts.
    pub(super) fn new(
        pending: &[String],
        decided: &[String],
        unknown: UnknownStatus,
    ) -> Result<Self, String> {
        let lower = |words: &[String]| words.iter().map(|word| normal(word)).collect::<Vec<_>>();
        let (own_pending, own_decided) = (lower(pending), lower(decided));
        if let Some(word) = own_pending.iter().find(|word| own_decided.contains(word)) {
            return Err(format!("the status '{word}' cannot be both pending and decided"));
        }
        let with_usual = |own: &[String], other: &[String], usual: &[&str]| {
            let usual = usual.iter().map(|word| (*word).to_owned());
            let mut words: Vec<String> = usual.filter(|word| !other.contains(word)).collect();
            words.extend(own.iter().cloned());
            words
        };
        Ok(Self {
            pending: with_usual(&own_pending, &own_decided, &PENDING),
            decided: with_usual(&own_decided, &own_pending, &DECIDED),
            unknown,
        })
    }

    /// What this status means.
    pub(super) fn verdict(&self, status: Option<&Value>) -> Verdict {
        let word = match status {
            None | Some(Value::Null) => return Verdict::Pending,
            Some(Value::String(text)) => normal(text),
            Some(other) => other.to_string(),
        };
        if self.decided.contains(&word) {
            return Verdict::Decided(word);
        }
        if word.is_empty() || self.pending.contains(&word) {
            return Verdict::Pending;
        }
        match self.unknown {
            UnknownStatus::Refuse => Verdict::Unknown(word),
            UnknownStatus::Pending => Verdict::Pending,
            UnknownStatus::Skip => Verdict::Skipped,
        }
    }
}

fn normal(word: &str) -> String {
    word.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(pending: &[&str], decided: &[&str], unknown: UnknownStatus) -> Result<Words, String> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Words::new(&owned(pending), &owned(decided), unknown)
    }

    #[test]
    fn null_pending_and_error_wait_and_decided_words_are_skipped() {
        let usual = words(&[], &[], UnknownStatus::Refuse).unwrap();
        assert_eq!(usual.verdict(None), Verdict::Pending);
        for status in [json!(null), json!(""), json!(" Pending "), json!("ERROR")] {
            assert_eq!(usual.verdict(Some(&status)), Verdict::Pending, "{status}");
        }
        for word in DECIDED {
            assert_eq!(
                usual.verdict(Some(&json!(word.to_uppercase()))),
                Verdict::Decided(word.to_owned())
            );
        }
        for (status, word) in [
            (json!("In_Review"), "in_review"),
            (json!(3), "3"),
            (json!(true), "true"),
        ] {
            assert_eq!(usual.verdict(Some(&status)), Verdict::Unknown(word.to_owned()));
        }
    }

    #[test]
    fn own_words_come_before_the_usual_ones() {
        let own = words(&["Done", "2"], &["error", "archived"], UnknownStatus::Skip).unwrap();
        for (status, verdict) in [
            (json!("done"), Verdict::Pending),
            (json!(2), Verdict::Pending),
            (json!("Error"), Verdict::Decided("error".to_owned())),
            (json!("archived"), Verdict::Decided("archived".to_owned())),
            (json!("other"), Verdict::Skipped),
        ] {
            assert_eq!(own.verdict(Some(&status)), verdict, "{status}");
        }
        let empty = words(&[], &[""], UnknownStatus::Pending).unwrap();
        assert_eq!(empty.verdict(Some(&json!(""))), Verdict::Decided(String::new()));
        assert_eq!(empty.verdict(Some(&json!("other"))), Verdict::Pending);
        assert!(words(&["x"], &["X"], UnknownStatus::Refuse).is_err());
    }
}
