//! Which fields the machine gets wrong, and how.

use std::collections::HashMap;

use super::commonest::{Common, Commonest};
use super::judged::Judged;
use super::share;

/// The most fields that are told apart; of more, the first that come up are.
pub const FIELDS_MAX: usize = 500;
/// How many changes of a field are told.
pub const CHANGES_SHOWN: usize = 10;
/// The longest value, as JSON text in bytes, that a change is told with: what is longer hardly comes up twice.
pub const VALUE_MAX: usize = 200;
/// How many changes of a field are told apart.
const CHANGES_MAX: usize = 100;

/// A change as it is counted: the machine's value and the reviewer's, as JSON text.
type ChangeKey = (String, String);

#[derive(Clone, Debug)]
struct Tally {
    extracted: u64,
    corrected: u64,
    changes: Commonest<ChangeKey>,
}

/// Counts corrections by field.
#[derive(Clone, Debug, Default)]
pub struct Corrections {
    fields: HashMap<String, Tally>,
    left_out: u64,
}

/// What became of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldCorrections {
    /// The field.
    pub field: String,
    /// How often a reviewer decided on what the machine had read.
    pub extracted: u64,
    /// How often that was changed.
    pub corrected: u64,
    /// The commonest changes, from the machine's value to the reviewer's.
    pub changes: Vec<Common<ChangeKey>>,
    /// Whether the changes are counted exactly; where not, each was there at least so often.
    pub is_exact: bool,
}

impl FieldCorrections {
    /// Of what was extracted, which share was changed.
    pub fn rate(&self) -> Option<f64> {
        share(self.corrected, self.extracted)
    }

    /// Changes that are not among those told.
    pub fn other_changes(&self) -> u64 {
        let told: u64 = self.changes.iter().map(|change| change.count).sum();
        self.corrected.saturating_sub(told)
    }
}

impl Corrections {
    /// Counts a decided field.
    pub fn add(&mut self, judged: &Judged<'_>) {
        if !self.fields.contains_key(judged.field) {
            if self.fields.len() >= FIELDS_MAX {
                self.left_out += 1;
                return;
            }
            let tally = Tally {
                extracted: 0,
                corrected: 0,
                changes: Commonest::new(CHANGES_MAX),
            };
            self.fields.insert(judged.field.to_owned(), tally);
        }
        let Some(tally) = self.fields.get_mut(judged.field) else {
            return;
        };
        tally.extracted += 1;
        if let Some(change) = judged.change {
            tally.corrected += 1;
            let key = (change.machine.to_string(), change.human.to_string());
            if key.0.len() <= VALUE_MAX && key.1.len() <= VALUE_MAX {
                tally.changes.add(key);
            }
        }
    }

    /// How often a field came up that is not told, because there are too many.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The fields: those corrected most often first, then by rate, then by name.
    pub fn finish(self) -> Vec<FieldCorrections> {
        let mut fields: Vec<_> = self
            .fields
            .into_iter()
            .map(|(field, tally)| FieldCorrections {
                field,
                extracted: tally.extracted,
                corrected: tally.corrected,
                changes: tally.changes.top(CHANGES_SHOWN),
                is_exact: tally.changes.is_exact(),
            })
            .collect();
        // With the same number of corrections, the fewer were extracted, the higher the rate.
        fields.sort_by(|a, b| {
            b.corrected
                .cmp(&a.corrected)
                .then(a.extracted.cmp(&b.extracted))
                .then_with(|| a.field.cmp(&b.field))
        });
        fields
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::insight::Change;

    fn add(to: &mut Corrections, field: &str, change: Option<(&Value, &Value)>) {
        let change = change.map(|(machine, human)| Change {
            field,
            machine,
            human,
            confidence: None,
        });
        to.add(&Judged {
            field,
            confidence: None,
            change,
        });
    }

    #[test]
    fn fields_are_counted_with_their_commonest_changes() {
        let mut corrections = Corrections::default();
        for _ in 0..3 {
            add(&mut corrections, "vendor", Some((&json!("Acne"), &json!("Acme"))));
            add(&mut corrections, "total", None);
        }
        add(&mut corrections, "vendor", Some((&json!("Bolt"), &json!("Bold"))));
        add(
            &mut corrections,
            "vendor",
            Some((&json!("x".repeat(300)), &json!("short"))),
        );
        add(&mut corrections, "vendor", None);
        add(&mut corrections, "due", Some((&json!(1), &json!(1.5))));
        let found = corrections.finish();
        let seen: Vec<_> = found
            .iter()
            .map(|f| {
                (
                    f.field.as_str(),
                    f.extracted,
                    f.corrected,
                    f.rate().unwrap(),
                    f.other_changes(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("vendor", 6, 5, 5.0 / 6.0, 1),
                ("due", 1, 1, 1.0, 0),
                ("total", 3, 0, 0.0, 0),
            ]
        );
        let changes: Vec<_> = found[0]
            .changes
            .iter()
            .map(|c| (c.key.0.as_str(), c.key.1.as_str(), c.count))
            .collect();
        assert_eq!(
            changes,
            [(r#""Acne""#, r#""Acme""#, 3), (r#""Bolt""#, r#""Bold""#, 1)]
        );
        assert!(found[0].is_exact);
    }

    #[test]
    fn more_fields_than_are_told_apart_are_said_to_be_left_out() {
        let mut corrections = Corrections::default();
        for n in 0..FIELDS_MAX + 3 {
            add(&mut corrections, &format!("f{n}"), None);
        }
        add(&mut corrections, "f0", None);
        assert_eq!(corrections.left_out(), 3);
        let found = corrections.finish();
        assert_eq!(found.len(), FIELDS_MAX);
        assert_eq!(
            found.iter().map(|f| f.extracted).sum::<u64>(),
            FIELDS_MAX as u64 + 1
        );
    }
}
