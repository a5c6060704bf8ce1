//! What became of all records, in numbers and in words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::refused::RefusedRecord;

/// How many refusals are told to people.
const TOLD_MAX: usize = 10;

/// The numbers. A run that goes on counts on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Sum {
    pub(super) records: u64,
    pub(super) taken: u64,
    /// There already, by their id.
    pub(super) known: u64,
    /// By reason.
    pub(super) skipped: BTreeMap<String, u64>,
    /// By kind of reason.
    pub(super) refused: BTreeMap<String, u64>,
}

impl Sum {
    pub(super) fn skipped(&self) -> u64 {
        self.skipped.values().sum()
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// The progress in a few words.
    pub(super) fn brief(&self) -> String {
        let mut words = format!("{} taken", grouped(self.taken));
        for (count, word) in [
            (self.known, "known"),
            (self.skipped(), "skipped"),
            (self.refused(), "refused"),
        ] {
            if count > 0 {
                words.push_str(&format!(", {} {word}", grouped(count)));
            }
        }
        words
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "records": self.records, "taken": self.taken, "known": self.known,
            "skipped": self.skipped(), "skippedBy": self.skipped,
            "refused": self.refused(), "refusedBy": self.refused,
        })
    }

    /// The numbers under each other.
    pub(super) fn table(&self, taken: &str) -> String {
        let width = grouped(self.records).len();
        let mut text = String::new();
        let mut line =
            |count: u64, words: &str| text.push_str(&format!("  {:>width$} {words}\n", grouped(count)));
        line(self.records, "records read");
        line(self.taken, taken);
        if self.known > 0 {
            line(self.known, "known already");
        }
        for (count, word, reasons) in [
            (self.skipped(), "skipped", &self.skipped),
            (self.refused(), "refused", &self.refused),
        ] {
            let reasons: Vec<String> = reasons
                .iter()
                .map(|(why, n)| format!("{} {why}", grouped(*n)))
                .collect();
            let because = if reasons.is_empty() {
                String::new()
            } else {
                format!(" ({})", reasons.join(", "))
            };
            line(count, &format!("{word}{because}"));
        }
        text
    }
}

/// The first refusals of a run, in words.
#[derive(Debug, Default)]
pub(super) struct Told {
    told: Vec<String>,
    count: u64,
}

impl Told {
    pub(super) fn add(&mut self, refused: &[RefusedRecord]) {
        self.count += refused.len() as u64;
        let room = TOLD_MAX - self.told.len();
        let words = refused.iter().take(room);
        self.told
            .extend(words.map(|record| format!("{}: {}", record.which, record.reason)));
    }

    /// The refusals of this run.
    pub(super) fn lines(&self, are_kept: bool) -> Vec<String> {
        let mut lines: Vec<String> = self.told.iter().map(|line| format!("  - {line}")).collect();
        if self.count > self.told.len() as u64 {
            let hint = if are_kept {
                ""
            } else {
                "; --refused FILE keeps them all"
            };
            lines.push(format!(
                "  … and {} more{hint}",
                grouped(self.count - self.told.len() as u64)
            ));
        }
        lines
    }
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn the_sum_names_the_reasons() {
        let sum = Sum {
            records: 1_010,
            taken: 1_000,
            known: 0,
            skipped: BTreeMap::from([
                ("decided: approved".to_owned(), 4),
                ("decided: rejected".to_owned(), 5),
            ]),
            refused: BTreeMap::from([("no JSON".to_owned(), 1)]),
        };
        assert_eq!(sum.brief(), "1,000 taken, 9 skipped, 1 refused");
        let expected = "  1,010 records read\n  1,000 taken\n      9 skipped (4 decided: approved, 5 decided: rejected)\n      1 refused (1 no JSON)\n";
        assert_eq!(sum.table("taken"), expected);
    }
}
