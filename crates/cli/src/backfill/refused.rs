//! Refused records, kept so that they can be mended and run again: a file of refused records is itself a file to backfill from.
//!
//! **Invariant:** the file is only appended to, and is cut back to what the checkpoint knows when a run goes on, so that no record is in it
//! twice.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use docket_client::wire::json as wire_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::batch::Which;

const WHY: &str = "refused";
const RECORD: &str = "record";

/// A record that was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedRecord {
    pub(super) which: Which,
    /// The kind of reason, for the sum.
    pub(super) kind: String,
    pub(super) reason: String,
    /// As it was read, where it is to be kept.
    pub(super) record: Option<String>,
}

impl RefusedRecord {
    /// The line that is kept: `{"refused": {"line": …, "kind": …, "reason": …}, "record": …}`.
    pub(super) fn line(&self) -> Value {
        let place = match &self.which {
            Which::Line(number) => ("line", json!(number)),
            Which::Key(key) => ("key", json!(key)),
        };
        let text = self.record.as_deref().filter(|text| !text.is_empty());
        // What is no JSON is kept as text, and so is what has a number that would not stay what it is.
        let record = text.map(|text| wire_json::read(text.as_bytes()).unwrap_or_else(|_| json!(text)));
        json!({
            WHY: { place.0: place.1, "kind": self.kind, "reason": self.reason },
            RECORD: record.map(Self::unwrap),
        })
    }

    /// The record of a line that was kept; any other line as it is.
    pub(super) fn unwrap(read: Value) -> Value {
        let kept = |map: &Map<String, Value>| {
            map.len() == 2
                && map.contains_key(RECORD)
                && map.get(WHY).is_some_and(|why| why.get("reason").is_some())
        };
        match read {
            Value::Object(mut map) if kept(&map) => match map.remove(RECORD) {
                // Text that was no JSON, and may be now.
                Some(Value::String(text)) => wire_json::read(text.as_bytes()).unwrap_or(Value::String(text)),
                record => record.unwrap_or_default(),
            },
            other => other,
        }
    }
}

/// How long a file of refused records was when a checkpoint was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Kept {
    path: PathBuf,
    bytes: u64,
}

/// The file of refused records.
#[derive(Debug)]
pub(super) struct RefusedFile {
    file: File,
    kept: Kept,
}

impl RefusedFile {
    /// Opens the file, at the length that a checkpoint knows of it. Where none does it has to be new, or empty, unless it is to be
    /// written `anew`: it may be what somebody is mending.
    pub(super) fn open(path: &Path, kept: Option<&Kept>, anew: bool) -> Result<Self> {
        let shown = path.display();
        let cannot = || format!("{shown} cannot be written");
        let mut options = OpenOptions::new();
        let opened = options.create(true).truncate(false).write(true).open(path);
        let mut file = opened.with_context(cannot)?;
        let path = path.canonicalize().with_context(cannot)?;
        let known = kept.filter(|kept| kept.path == path).map(|kept| kept.bytes);
        let length = file.metadata().with_context(cannot)?.len();
        if known.is_none() && length > 0 && !anew {
            bail!(
                "{shown} is there already, and not from this run; name another file with --refused, or remove it"
            );
        }
        // Somebody may have shortened it since.
        let bytes = known.filter(|_| !anew).unwrap_or(0).min(length);
        let cut = file
            .set_len(bytes)
            .and_then(|()| file.seek(SeekFrom::Start(bytes)));
        cut.with_context(cannot)?;
        let kept = Kept { path, bytes };
        Ok(Self { file, kept })
    }

    /// Adds records, for certain.
    pub(super) fn add(&mut self, refused: &[RefusedRecord]) -> Result<()> {
        if refused.is_empty() {
            return Ok(());
        }
        let text: String = refused
            .iter()
            .map(|record| format!("{}\n", record.line()))
            .collect();
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data());
        written.with_context(|| format!("{} cannot be written", self.kept.path.display()))?;
        self.kept.bytes += text.len() as u64;
        Ok(())
    }

    /// How long it is.
    pub(super) const fn kept(&self) -> &Kept {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(record: &str) -> RefusedRecord {
        RefusedRecord {
            which: Which::Line(7),
            kind: "no JSON".to_owned(),
            reason: "because".to_owned(),
            record: Some(record.to_owned()),
        }
    }

    #[test]
    fn a_kept_record_is_read_as_itself_once_it_is_mended() {
        let kept = refused(r#"{"_id": 1}"#).line();
        assert_eq!(
            kept,
            json!({"refused": {"line": 7, "kind": "no JSON", "reason": "because"}, "record": {"_id": 1}})
        );
        assert_eq!(RefusedRecord::unwrap(kept.clone()), json!({"_id": 1}));
        // Refused once more, it is not wrapped once more.
        assert_eq!(refused(&kept.to_string()).line(), kept);
        let torn = refused("{\"_id\": ").line();
        assert_eq!(torn["record"], json!("{\"_id\": "));
        assert_eq!(RefusedRecord::unwrap(torn), json!("{\"_id\": "));
        let mended = json!({"refused": {"reason": "x"}, "record": "{\"_id\": 2}"});
        assert_eq!(RefusedRecord::unwrap(mended), json!({"_id": 2}));
        for data in [
            json!({"record": 1}),
            json!({"refused": true, "record": 1}),
            json!([1]),
        ] {
            assert_eq!(RefusedRecord::unwrap(data.clone()), data);
        }
    }

    #[test]
    fn going_on_cuts_back_what_the_checkpoint_does_not_know() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("refused.jsonl");
        let mut file = RefusedFile::open(&path, None, false).unwrap();
        file.add(&[refused("1")]).unwrap();
        let known = file.kept().clone();
        file.add(&[refused("2")]).unwrap();
        let mut file = RefusedFile::open(&path, Some(&known), false).unwrap();
        file.add(&[refused("3")]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["record"].clone())
            .collect();
        assert_eq!(records, [json!(1), json!(3)]);
        // Another run would not know it, and may only write it anew.
        let other = Kept {
            path: folder.path().join("other"),
            bytes: 0,
        };
        for kept in [None, Some(&other)] {
            let problem = RefusedFile::open(&path, kept, false).unwrap_err().to_string();
            assert!(problem.contains("is there already"), "{problem}");
        }
        RefusedFile::open(&path, None, true).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }
}
