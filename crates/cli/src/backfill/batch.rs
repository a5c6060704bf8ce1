//! Records on their way: read, mapped, and gathered into batches that go in one call each.
//!
//! **Invariant:** a batch says where its source stands behind its last record, and batches come in the order of their records. Whoever
//! has dealt with a batch and all before it can go on there.

use std::collections::BTreeMap;

use docket_client::wire::item::SubmitItem;
use docket_client::wire::json;
use docket_core::content::check_json;
use docket_core::item::{ItemDetails, JSON_MAX};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::extended;
use super::lines::{LastLine, Line};
use super::mapping::{Mapped, Mapping, Unfit};
use super::refused::RefusedRecord;

/// A batch goes when it has so many bytes, though it may have room for more entries.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// The same for what its values take in memory, here and at the server: many small ones take far more than their text.
const VALUES_MAX: usize = 64 * 1024 * 1024;
/// A record of fewer bytes cannot be beyond the largest payload, which is left to the server to say.
const SURELY_SMALL: usize = JSON_MAX / 4;

const NOT_JSON: &str = "no JSON";
const NOT_EXACT: &str = "number too long";
const NOT_UTF8: &str = "no UTF-8";
const NOT_OBJECT: &str = "no object";
const TOO_LONG: &str = "too long";
const NOT_WHOLE: &str = "not whole";
const NOT_TAKEN: &str = "validation_failed";

/// Where a source stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Position {
    /// Behind this line.
    Line(LastLine),
    /// Behind the row with this key.
    Key(String),
}

/// Which record: its line, or its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    Line(u64),
    Key(String),
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Key(key) => write!(f, "key {key}"),
        }
    }
}

/// One entry of a batch: the item, and the record that it was made of.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: SubmitItem,
    pub(super) which: Which,
    /// The record as it was read, where refused ones are kept.
    pub(super) record: Option<String>,
}

/// What goes in one call, and what is known of the records around it.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) entries: Vec<Entry>,
    pub(super) skipped: BTreeMap<String, u64>,
    pub(super) refused: Vec<RefusedRecord>,
    /// How many records it covers.
    pub(super) records: u64,
    /// Where it ends, in bytes of the file.
    pub(super) end: u64,
    /// Where the source stands behind it; none where a later run should look at it again.
    pub(super) position: Option<Position>,
    weight: usize,
    values: usize,
    largest_confidence: f64,
}

/// Gathers records into batches.
#[derive(Debug)]
pub(super) struct Batcher {
    mapping: Mapping,
    size: usize,
    keeps_records: bool,
    checks: bool,
    open: Batch,
}

impl Batcher {
    /// Batches of this size. `keeps_records` is for those who keep what is refused; `checks` looks at items as the server would.
    pub(super) fn new(mapping: Mapping, size: usize, keeps_records: bool, checks: bool) -> Self {
        Self {
            mapping,
            size,
            keeps_records,
            checks,
            open: Batch::default(),
        }
    }

    /// Takes a line. The last line of a file that is still being written may be half a line: it is not counted as dealt with.
    pub(super) fn line(&mut self, line: &Line) {
        self.open.end = line.end();
        let which = Which::Line(line.number);
        let read = match std::str::from_utf8(&line.bytes) {
            _ if line.is_too_long => {
                let max = super::lines::LINE_MAX >> 20;
                Err(unfit(TOO_LONG, format!("the line is longer than {max} MiB")))
            }
            Err(problem) => Err(unfit(
                NOT_UTF8,
                format!("byte {} of the line is no UTF-8", problem.valid_up_to() + 1),
            )),
            Ok(text) if text.trim().is_empty() => {
                self.open.position = Some(Position::Line(line.place()));
                return;
            }
            Ok(text) => read_line(text),
        };
        let torn = line.is_open && read.as_ref().is_err_and(|unfit| unfit.kind == NOT_JSON);
        let read = match read {
            Err(unfit) if torn => Err(Unfit {
                kind: NOT_WHOLE,
                reason: format!(
                    "{}; the file ends within this line: is it still being written?",
                    unfit.reason
                ),
            }),
            read => read,
        };
        // What is too long to be taken is too long to be kept.
        let text = match line.is_too_long {
            true => "".into(),
            false => String::from_utf8_lossy(&line.bytes),
        };
        self.record(which, &text, read);
        self.open.position = (!torn).then(|| Position::Line(line.place()));
    }

    /// Takes a row.
    pub(super) fn row(&mut self, key: String, record: &str) {
        let read = read_json(record);
        self.record(Which::Key(key.clone()), record, read);
        self.open.position = Some(Position::Key(key));
    }

    fn record(&mut self, which: Which, text: &str, read: Result<Record, Unfit>) {
        self.open.records += 1;
        let taken = read.and_then(|record| {
            let mapped = match self.mapping.apply(record.value)? {
                Mapped::Skipped(why) => return Ok(Taken::Skipped(why)),
                Mapped::Item(item) => item,
            };
            // Only now: what is skipped may have any numbers.
            let values = record.values?;
            if self.checks || text.len() >= SURELY_SMALL {
                check(&mapped)?;
            }
            Ok(Taken::Item(mapped, values))
        });
        match taken {
            Ok(Taken::Skipped(why)) => *self.open.skipped.entry(why).or_default() += 1,
            Ok(Taken::Item(item, values)) => {
                let times = 1 + usize::from(item.display_payload.is_some());
                self.open.weight += text.len() * times;
                self.open.values += values * times;
                self.open.note_confidence(&item);
                self.open.entries.push(Entry {
                    item: *item,
                    which,
                    record: self.keeps_records.then(|| text.to_owned()),
                });
            }
            Err(Unfit { kind, reason }) => {
                let record = self.keeps_records.then(|| text.to_owned());
                self.open.weight += record.as_ref().map_or(0, String::len);
                self.open.refused.push(RefusedRecord {
                    which,
                    kind: kind.to_owned(),
                    reason,
                    record,
                });
            }
        }
    }

    /// The batch, where it is full: of entries, of bytes, or of records that needed no call.
    pub(super) fn full(&mut self) -> Option<Batch> {
        let open = &self.open;
        let full = open.entries.len() >= self.size
            || open.weight >= BYTES_MAX
            || open.values >= VALUES_MAX
            || open.refused.len() >= self.size
            || open.records >= 20 * self.size as u64;
        full.then(|| self.rest())
    }

    /// Whatever there is.
    pub(super) fn rest(&mut self) -> Batch {
        std::mem::take(&mut self.open)
    }
}

impl Batch {
    /// Whether there is nothing in it.
    pub(super) const fn is_empty(&self) -> bool {
        self.records == 0 && self.position.is_none()
    }

    /// The largest confidence of its items, on the scale to 100.
    pub(super) const fn largest_confidence(&self) -> f64 {
        self.largest_confidence
    }

    fn note_confidence(&mut self, item: &SubmitItem) {
        let fields = item.fields.iter().flatten().filter_map(|field| field.confidence);
        let largest = item.confidence.into_iter().chain(fields).fold(0.0, f64::max);
        self.largest_confidence = self.largest_confidence.max(largest);
    }
}

fn unfit(kind: &'static str, reason: String) -> Unfit {
    Unfit { kind, reason }
}

/// A record that was read.
#[derive(Debug)]
struct Record {
    value: Value,
    /// What it takes in memory; or that its numbers do not stay what they are.
    values: Result<usize, Unfit>,
}

/// What becomes of a record.
enum Taken {
    Skipped(String),
    Item(Box<SubmitItem>, usize),
}

fn read_json(text: &str) -> Result<Record, Unfit> {
    let read = serde_json::from_str(text).map_err(|problem| unfit(NOT_JSON, problem.to_string()))?;
    Ok(Record {
        value: read,
        values: weigh(text),
    })
}

fn weigh(text: &str) -> Result<usize, Unfit> {
    let weighed = json::weigh(text.as_bytes(), usize::MAX);
    weighed.map_err(|problem| unfit(NOT_EXACT, problem.to_string()))
}

/// The record of a line: plain JSON, extended JSON, or a line of an earlier run's refused ones.
fn read_line(text: &str) -> Result<Record, Unfit> {
    let Record { value, values } = read_json(text)?;
    let record = RefusedRecord::unwrap(value);
    if let Value::String(text) = &record {
        // A record that was kept as text because of its numbers has them still.
        weigh(text)?;
    }
    if !record.is_object() {
        let problem =
            "the line is no JSON object; an array of records is written one a line by `jq -c '.[]'`";
        return Err(unfit(NOT_OBJECT, problem.to_owned()));
    }
    let record = extended::plain(record).map_err(|problem| unfit("wrong extended JSON", problem))?;
    Ok(Record {
        value: record,
        values,
    })
}

/// Looks at an item as the server does, before anything is sent.
fn check(item: &SubmitItem) -> Result<(), Unfit> {
    let details = ItemDetails {
        external_id: item.external_id.clone(),
        metadata: item.metadata.clone(),
        fields: item
            .fields
            .clone()
            .map(|fields| fields.into_iter().map(Into::into).collect()),
        display_payload: item.display_payload.clone(),
        confidence: item.confidence,
        line_item_count: item.line_item_count,
        total_amount: item.total_amount,
        deadline: item.deadline.map(Into::into),
        ..ItemDetails::default()
    };
    details
        .check()
        .and_then(|()| check_json("payload", &item.payload, JSON_MAX).map(drop))
        .map_err(|refusal| unfit(NOT_TAKEN, refusal.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backfill::given::MappingArgs;
    use crate::backfill::path::Path;

    fn batcher() -> Batcher {
        let mapping = MappingArgs::default().read(Path::of_name("_id")).unwrap();
        Batcher::new(mapping, 1_000, true, false)
    }

    #[test]
    fn a_number_that_would_be_rounded_is_refused_with_its_record_as_it_is() {
        let record = r#"{"_id": "a", "lines": [{"serial": 123456789012345678901}]}"#;
        let mut batcher = batcher();
        batcher.row("a".to_owned(), record);
        batcher.row(
            "b".to_owned(),
            r#"{"_id": "b", "serial": "123456789012345678901", "n": 18446744073709551615}"#,
        );
        let batch = batcher.rest();
        assert_eq!((batch.entries.len(), batch.refused.len()), (1, 1));
        let refused = &batch.refused[0];
        assert_eq!(refused.kind, NOT_EXACT);
        assert!(
            refused
                .reason
                .starts_with("lines[0].serial: the whole number 123456789012345678901 "),
            "{}",
            refused.reason
        );
        // It is kept as it was, and found wanting again until somebody mends it.
        let kept = refused.line();
        assert_eq!(kept["record"], record);
        let mended = read_line(&kept.to_string().replace("123456789012345678901}", "\\\"1\\\"}")).unwrap();
        assert_eq!(mended.value["lines"][0]["serial"], "1");
        assert_eq!(read_line(&kept.to_string()).unwrap_err().kind, NOT_EXACT);
    }

    #[test]
    fn what_is_decided_is_skipped_whatever_its_numbers() {
        let mut batcher = batcher();
        let record = r#"{"_id": "a", "status": "approved", "serial": 123456789012345678901}"#;
        batcher.row("a".to_owned(), record);
        let batch = batcher.rest();
        assert_eq!(
            (batch.entries.len(), batch.refused.len(), batch.skipped.len()),
            (0, 0, 1)
        );
    }

    #[test]
    fn many_small_values_fill_a_batch_before_its_bytes_do() {
        let record = format!(r#"{{"_id": "a", "all": [{}0]}}"#, r#"{"":0},"#.repeat(20_000));
        let mut batcher = batcher();
        let mut taken = 0;
        while batcher.full().is_none() {
            batcher.row("a".to_owned(), &record);
            taken += 1;
        }
        assert!((4..10).contains(&taken), "{taken}");
    }
}
