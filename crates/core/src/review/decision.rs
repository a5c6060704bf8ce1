//! What a reviewer may decide (rule V10).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Outcome;
use crate::content::check_json;
use crate::field::FIELDS_MAX;
use crate::item::JSON_MAX;
use crate::name::{NAME_MAX, check_text};
use crate::refusal::{Refusal, Refused};

/// The longest reason, in characters.
pub const REASON_MAX: usize = 4_000;

/// A value that a reviewer gives a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldCorrection {
    /// The field.
    pub field: String,
    /// What is right.
    pub value: Value,
}

/// Checks what is decided, apart from what the item has (rule V10): a rejection needs a reason, a correction at least one field.
pub fn check_decision(
    outcome: Outcome,
    reason: Option<&str>,
    corrections: &[FieldCorrection],
) -> Refused<()> {
    if let Some(reason) = reason {
        check_reason(reason)?;
    }
    match outcome {
        Outcome::Rejected if reason.is_none_or(|reason| reason.trim().is_empty()) => {
            return Err(Refusal::invalid("reason", "a rejection needs a reason"));
        }
        Outcome::Corrected if corrections.is_empty() => {
            let problem =
                "needs at least one field with its right value; what is right as it is, is approved";
            return Err(Refusal::invalid("corrections", problem));
        }
        Outcome::Approved | Outcome::Rejected if !corrections.is_empty() => {
            let problem = "are taken with the outcome 'corrected' only";
            return Err(Refusal::invalid("corrections", problem));
        }
        _ => {}
    }
    if corrections.len() > FIELDS_MAX {
        let problem = format!("at most {FIELDS_MAX} are taken");
        return Err(Refusal::invalid("corrections", problem));
    }
    let mut names = std::collections::HashSet::with_capacity(corrections.len());
    for (index, correction) in corrections.iter().enumerate() {
        let path = format!("corrections[{index}]");
        check_text("field", &correction.field, NAME_MAX).map_err(|refusal| refusal.under(&path))?;
        check_json("value", &correction.value, JSON_MAX).map_err(|refusal| refusal.under(&path))?;
        if !names.insert(correction.field.as_str()) {
            let problem = format!("field '{}' is corrected twice", correction.field);
            return Err(Refusal::invalid(path, problem));
        }
    }
    Ok(())
}

/// Checks a reason: what people write, line breaks included, up to [`REASON_MAX`] characters.
pub fn check_reason(reason: &str) -> Refused<()> {
    if reason.len() > REASON_MAX * 4 || reason.chars().count() > REASON_MAX {
        let problem = format!("must have at most {REASON_MAX} characters");
        return Err(Refusal::invalid("reason", problem));
    }
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if reason.chars().any(is_control) {
        return Err(Refusal::invalid("reason", "must not contain control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn correction(field: &str) -> FieldCorrection {
        FieldCorrection {
            field: field.to_owned(),
            value: json!("x"),
        }
    }

    #[test]
    fn a_decision_says_what_it_needs() {
        let long = "x".repeat(REASON_MAX + 1);
        for (outcome, reason, corrections, ok) in [
            (Outcome::Approved, None, vec![], true),
            (Outcome::Approved, Some("fine\nreally"), vec![], true),
            (Outcome::Approved, None, vec![correction("a")], false),
            (Outcome::Rejected, None, vec![], false),
            (Outcome::Rejected, Some("  "), vec![], false),
            (Outcome::Rejected, Some("torn"), vec![], true),
            (Outcome::Rejected, Some(long.as_str()), vec![], false),
            (Outcome::Rejected, Some("a\0b"), vec![], false),
            (Outcome::Corrected, None, vec![], false),
            (
                Outcome::Corrected,
                None,
                vec![correction("a"), correction("b")],
                true,
            ),
            (
                Outcome::Corrected,
                None,
                vec![correction("a"), correction("a")],
                false,
            ),
            (Outcome::Corrected, None, vec![correction("")], false),
        ] {
            let found = check_decision(outcome, reason, &corrections);
            assert_eq!(found.is_ok(), ok, "{outcome:?} {reason:?}: {found:?}");
        }
    }
}
