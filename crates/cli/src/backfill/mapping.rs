//! From a record to an item: which part of it is what. Everything is found by path; a record that lacks what it must have, or has
//! something else in its place, is refused with the path and what stands there.

use std::collections::BTreeMap;

use docket_client::wire::Time;
use docket_client::wire::field::{MachineField, Region};
use docket_client::wire::item::{OnConflict, SubmitItem};
use serde_json::{Map, Value, json};

use super::path::Path;
use super::reading;
use super::status::{Verdict, Words};

/// Where a field's parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldPaths {
    pub(super) value: Path,
    pub(super) confidence: Option<Path>,
    pub(super) region: Option<Path>,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub(super) external_id: Path,
    pub(super) payload: Path,
    pub(super) display_payload: Option<Path>,
    /// All fields in one place.
    pub(super) all_fields: Option<Path>,
    /// Single fields, by name.
    pub(super) fields: BTreeMap<String, FieldPaths>,
    pub(super) confidence: Option<Path>,
    /// What is certain: 100, or 1 where confidences are fractions.
    pub(super) confidence_max: f64,
    pub(super) line_item_count: Option<Path>,
    pub(super) total_amount: Option<Path>,
    pub(super) deadline: Option<Path>,
    pub(super) created_at: Option<Path>,
    /// A record without a deadline is due so long after it was created.
    pub(super) deadline_after_ms: Option<i64>,
    pub(super) metadata: BTreeMap<String, Path>,
    pub(super) status: Path,
    pub(super) words: Words,
    pub(super) on_conflict: OnConflict,
}

/// What a record is to us.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mapped {
    /// It is to be taken in.
    Item(Box<SubmitItem>),
    /// It is left out: why.
    Skipped(String),
}

/// Why a record cannot be taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    /// The kind of reason, for the sum.
    pub(super) kind: &'static str,
    /// The reason.
    pub(super) reason: String,
}

pub(super) const UNKNOWN_STATUS: &str = "unknown status";
pub(super) const NOT_MAPPED: &str = "cannot be mapped";

impl Mapping {
    /// What a record is to us.
    pub(super) fn apply(&self, record: Value) -> Result<Mapped, Unfit> {
        match self.words.verdict(self.status.find(&record)) {
            Verdict::Pending => {}
            Verdict::Decided(word) => return Ok(Mapped::Skipped(format!("decided: {word}"))),
            Verdict::Skipped => return Ok(Mapped::Skipped("status in no list".to_owned())),
            Verdict::Unknown(word) => {
                return Err(Unfit {
                    kind: UNKNOWN_STATUS,
                    reason: format!(
                        "the status '{word}' ({}) is not known; say --pending or --decided '{word}'",
                        self.status
                    ),
                });
            }
        }
        let item = self.item(record).map_err(|reason| Unfit {
            kind: NOT_MAPPED,
            reason,
        })?;
        Ok(Mapped::Item(Box::new(item)))
    }

    fn item(&self, record: Value) -> Result<SubmitItem, String> {
        let external_id = self
            .external_id
            .find(&record)
            .ok_or_else(|| format!("there is no externalId at {}", self.external_id))?;
        let external_id = reading::id(external_id)
            .ok_or_else(|| wrong("externalId", &self.external_id, external_id, "a text or a number"))?;
        let found = |path: &Option<Path>| path.as_ref().and_then(|path| path.find(&record)).cloned();
        let created_at = self.part(
            "createdAt",
            self.created_at.as_ref(),
            &record,
            reading::time,
            "a time",
        )?;
        let deadline = self.part(
            "deadline",
            self.deadline.as_ref(),
            &record,
            reading::time,
            "a time",
        )?;
        let item = SubmitItem {
            external_id: Some(external_id),
            payload: Value::Null,
            metadata: self.metadata(&record, created_at),
            fields: self.fields(&record)?,
            display_payload: found(&self.display_payload),
            confidence: self.confidence("confidence", self.confidence.as_ref(), &record)?,
            line_item_count: self.part(
                "lineItemCount",
                self.line_item_count.as_ref(),
                &record,
                reading::count,
                "a whole number or a list",
            )?,
            total_amount: self.part(
                "totalAmount",
                self.total_amount.as_ref(),
                &record,
                reading::number,
                "a number",
            )?,
            deadline: deadline.or_else(|| self.due(created_at)),
            on_conflict: self.on_conflict,
        };
        Ok(SubmitItem {
            payload: self.payload(record)?,
            ..item
        })
    }

    /// The whole record is not copied.
    fn payload(&self, record: Value) -> Result<Value, String> {
        if self.payload.is_whole() {
            return Ok(record);
        }
        let found = self.payload.find(&record).cloned();
        found.ok_or_else(|| format!("there is no payload at {}", self.payload))
    }

    fn due(&self, created_at: Option<Time>) -> Option<Time> {
        let created_at = created_at?.timestamp();
        Some(created_at.plus_ms(self.deadline_after_ms?).into())
    }

    fn metadata(&self, record: &Value, created_at: Option<Time>) -> Option<Value> {
        let mut metadata = Map::new();
        for (name, path) in &self.metadata {
            if let Some(value) = path.find(record) {
                metadata.insert(name.clone(), value.clone());
            }
        }
        if let Some(at) = created_at {
            metadata.insert("createdAt".to_owned(), json!(at));
        }
        (!metadata.is_empty()).then_some(Value::Object(metadata))
    }

    fn fields(&self, record: &Value) -> Result<Option<Vec<MachineField>>, String> {
        let mut fields: BTreeMap<String, MachineField> = BTreeMap::new();
        if let Some((path, found)) = self
            .all_fields
            .as_ref()
            .and_then(|path| Some((path, path.find(record)?)))
        {
            for field in self.fields_together(path, found)? {
                fields.insert(field.name.clone(), field);
            }
        }
        for (name, paths) in &self.fields {
            if let Some(value) = paths.value.find(record) {
                let what = format!("fields.{name}");
                let confidence = self.confidence(&what, paths.confidence.as_ref(), record)?;
                let region = self.part(&what, paths.region.as_ref(), record, region, "a region")?;
                let field = MachineField {
                    name: name.clone(),
                    value: value.clone(),
                    confidence,
                    region,
                };
                fields.insert(name.clone(), field);
            }
        }
        Ok((!fields.is_empty()).then(|| fields.into_values().collect()))
    }

    /// `{ name: value }`, `{ name: { value, confidence, region } }`, or a list of `{ name, value, confidence, region }`.
    fn fields_together(&self, path: &Path, found: &Value) -> Result<Vec<MachineField>, String> {
        match found {
            Value::Object(map) => map.iter().map(|(name, value)| self.field(name, value)).collect(),
            Value::Array(values) => values
                .iter()
                .map(|value| match value.get("name").and_then(Value::as_str) {
                    Some(name) if value.get("value").is_some() => self.field(name, value),
                    _ => Err(wrong("a field", path, value, "an object with name and value")),
                })
                .collect(),
            other => Err(wrong("fields", path, other, "an object or a list")),
        }
    }

    fn field(&self, name: &str, found: &Value) -> Result<MachineField, String> {
        let mut field = MachineField {
            name: name.to_owned(),
            value: found.clone(),
            confidence: None,
            region: None,
        };
        if let Some(value) = found.get("value") {
            let what = format!("fields.{name}");
            field.value = value.clone();
            field.confidence = self.confidence(&what, Some(&Path::of_name("confidence")), found)?;
            field.region = self.part(&what, Some(&Path::of_name("region")), found, region, "a region")?;
        }
        Ok(field)
    }

    /// A confidence, brought to 0 to 100.
    fn confidence(&self, what: &str, path: Option<&Path>, record: &Value) -> Result<Option<f64>, String> {
        let Some(given) = self.part(what, path, record, reading::number, "a number")? else {
            return Ok(None);
        };
        if !(0.0..=self.confidence_max).contains(&given) {
            let max = self.confidence_max;
            return Err(format!(
                "the confidence {given} of {what} is not between 0 and {max}"
            ));
        }
        Ok(Some(given / self.confidence_max * 100.0))
    }

    /// A part that may be missing, but may not be something else.
    fn part<T>(
        &self,
        what: &str,
        path: Option<&Path>,
        record: &Value,
        read: impl Fn(&Value) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, String> {
        let Some((path, found)) = path.and_then(|path| Some((path, path.find(record)?))) else {
            return Ok(None);
        };
        match read(found) {
            Some(part) => Ok(Some(part)),
            None => Err(wrong(what, path, found, expected)),
        }
    }
}

fn wrong(what: &str, path: &Path, found: &Value, expected: &str) -> String {
    format!(
        "{what} at {path} is {}, not {expected}",
        reading::shortened(found)
    )
}

fn region(value: &Value) -> Option<Region> {
    serde_json::from_value(value.clone()).ok()
}
