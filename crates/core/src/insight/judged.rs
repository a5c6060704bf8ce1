//! What a decision says of each of the machine's fields.

use std::collections::HashMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::review::Outcome;

/// A field of the machine's, as it was when its review began. Written as `["vendor", 67.0]`, or as `["vendor", 67.0, true]` where a person's
/// value stood before the machine's.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Written")]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// How sure the machine was.
    pub confidence: Option<f64>,
    /// Whether people saw an earlier correction in the machine's place.
    pub is_corrected: bool,
}

#[derive(Deserialize)]
struct Written(String, Option<f64>, #[serde(default)] bool);

impl From<Written> for Fact {
    fn from(Written(name, confidence, is_corrected): Written) -> Self {
        Self {
            name,
            confidence,
            is_corrected,
        }
    }
}

impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_corrected {
            false => (&self.name, self.confidence).serialize(serializer),
            true => (&self.name, self.confidence, true).serialize(serializer),
        }
    }
}

/// A field that a decision gave another value.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Its name.
    pub field: &'a str,
    /// What the machine says of it, whatever stood there before the decision.
    pub machine: &'a Value,
    /// What the reviewer says.
    pub human: &'a Value,
    /// How sure the machine was.
    pub confidence: Option<f64>,
}

impl Change<'_> {
    /// Whether the machine said anything of the field.
    fn is_said(&self) -> bool {
        self.confidence.is_some() || !self.machine.is_null()
    }
}

/// A field of the machine's that a reviewer has decided on.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// Its name.
    pub field: &'a str,
    /// How sure the machine was.
    pub confidence: Option<f64>,
    /// What the reviewer made of it, where that is something else.
    pub change: Option<Change<'a>>,
}

/// The fields on which a decision speaks.
///
/// - A rejection speaks on the item, not on its fields.
/// - A field that the decision corrects is changed where the reviewer's value is another than the machine's.
/// - A field under an earlier correction that the decision leaves alone is left out: the reviewer saw a person's value, not the machine's.
/// - Every other field of the machine's was right.
/// - A corrected field of which the machine said nothing is left out: nothing was got wrong.
pub fn judge<'a>(
    outcome: Outcome,
    facts: &'a [Fact],
    changes: impl IntoIterator<Item = Change<'a>>,
) -> Vec<Judged<'a>> {
    if outcome == Outcome::Rejected {
        return Vec::new();
    }
    let mut changes: HashMap<&str, Change<'a>> =
        changes.into_iter().map(|change| (change.field, change)).collect();
    let is_changed = |change: &Change<'a>| change.machine != change.human;
    let mut judged = Vec::with_capacity(facts.len());
    for fact in facts {
        let change = changes.remove(fact.name.as_str());
        if change.is_some() || !fact.is_corrected {
            judged.push(Judged {
                field: &fact.name,
                confidence: fact.confidence,
                change: change.filter(is_changed),
            });
        }
    }
    // Fields that the machine has read after the review began.
    let later = changes.into_values().filter(Change::is_said);
    judged.extend(later.map(|change| Judged {
        field: change.field,
        confidence: change.confidence,
        change: Some(change).filter(is_changed),
    }));
    judged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fact(name: &str, confidence: Option<f64>, is_corrected: bool) -> Fact {
        Fact {
            name: name.to_owned(),
            confidence,
            is_corrected,
        }
    }

    #[test]
    fn facts_are_short_and_read_back() {
        let facts = [
            fact("vendor", Some(67.0), false),
            fact("total", None, false),
            fact("due", Some(90.5), true),
        ];
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(text, r#"[["vendor",67.0],["total",null],["due",90.5,true]]"#);
        assert_eq!(serde_json::from_str::<Vec<Fact>>(&text).unwrap(), facts);
    }

    #[test]
    fn a_decision_speaks_on_what_the_reviewer_saw_of_the_machine() {
        let (acne, acme, other) = (json!("Acne"), json!("Acme"), json!("Acme Inc"));
        let to = |field, human| Change {
            field,
            machine: &acne,
            human,
            confidence: Some(67.0),
        };
        let unsaid = Change {
            machine: &Value::Null,
            confidence: None,
            ..to("note", &acme)
        };
        let plain = [
            fact("vendor", Some(67.0), false),
            fact("total", Some(99.0), false),
        ];
        let locked = [fact("vendor", Some(67.0), true), fact("total", Some(99.0), false)];
        // Each case: the decision, the facts, the changes; which fields are judged, and whether they were changed.
        type Case<'a> = (Outcome, &'a [Fact], Vec<Change<'a>>, &'a [(&'a str, bool)]);
        let cases: [Case<'_>; 9] = [
            (
                Outcome::Approved,
                &plain,
                vec![],
                &[("vendor", false), ("total", false)],
            ),
            (Outcome::Rejected, &plain, vec![], &[]),
            (
                Outcome::Corrected,
                &plain,
                vec![to("vendor", &acme)],
                &[("vendor", true), ("total", false)],
            ),
            (
                Outcome::Corrected,
                &plain,
                vec![to("vendor", &acne)],
                &[("vendor", false), ("total", false)],
            ),
            (Outcome::Approved, &locked, vec![], &[("total", false)]),
            (
                Outcome::Corrected,
                &locked,
                vec![to("vendor", &other)],
                &[("vendor", true), ("total", false)],
            ),
            (
                Outcome::Corrected,
                &plain,
                vec![unsaid],
                &[("vendor", false), ("total", false)],
            ),
            (
                Outcome::Corrected,
                &plain[..1],
                vec![to("due", &acme)],
                &[("vendor", false), ("due", true)],
            ),
            (Outcome::Approved, &[], vec![], &[]),
        ];
        for (index, (outcome, facts, changes, expected)) in cases.into_iter().enumerate() {
            let judged = judge(outcome, facts, changes);
            let found: Vec<_> = judged.iter().map(|j| (j.field, j.change.is_some())).collect();
            assert_eq!(found, expected, "case {index}");
        }
    }
}
