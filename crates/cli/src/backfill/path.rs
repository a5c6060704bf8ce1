//! Paths into a record: `extracted.vendor.value`, `lines.0.amount`; a dot within a name is written `\.`, and `.` alone is the whole
//! record.

use std::fmt;

use serde_json::Value;

/// Names and places in arrays, from the outside to the inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    segments: Vec<String>,
}

impl Path {
    /// Reads a path as people write it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text == "." {
            return Ok(Self::whole());
        }
        let mut segments = vec![String::new()];
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let last = segments.len() - 1;
            match character {
                '.' => segments.push(String::new()),
                '\\' => match characters.next() {
                    Some(escaped @ ('.' | '\\')) => segments[last].push(escaped),
                    _ => return Err(format!("'{text}' is no path: after \\ comes . or \\")),
                },
                other => segments[last].push(other),
            }
        }
        if segments.iter().any(String::is_empty) {
            return Err(format!(
                "'{text}' is no path; one looks like extracted.vendor.value, and the whole record is ."
            ));
        }
        Ok(Self { segments })
    }

    /// The record itself.
    pub(super) const fn whole() -> Self {
        Self { segments: Vec::new() }
    }

    /// The path to one name, whatever is in it.
    pub(super) fn of_name(name: &str) -> Self {
        Self {
            segments: vec![name.to_owned()],
        }
    }

    /// Whether it is the record itself.
    pub(super) const fn is_whole(&self) -> bool {
        self.segments.is_empty()
    }

    /// What is there, if anything; null is nothing.
    pub(super) fn find<'a>(&self, record: &'a Value) -> Option<&'a Value> {
        let mut found = record;
        for segment in &self.segments {
            found = match found {
                Value::Object(map) => map.get(segment)?,
                Value::Array(values) => values.get(segment.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        (!found.is_null()).then_some(found)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.segments.is_empty() {
            return f.write_str(".");
        }
        for (index, segment) in self.segments.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            f.write_str(&segment.replace('\\', "\\\\").replace('.', "\\."))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_finds_what_is_there() {
        let record = json!({
            "a": {"b": [10, {"c": "deep"}], "none": null}, "dotted.name": 1, "back\\slash": 2, "0": "zero",
        });
        for (path, expected) in [
            ("a.b.0", Some(json!(10))),
            ("a.b.1.c", Some(json!("deep"))),
            ("a.b.2", None),
            ("a.b.c", None),
            ("a.none", None),
            ("a.none.more", None),
            ("b", None),
            ("0", Some(json!("zero"))),
            ("dotted\\.name", Some(json!(1))),
            ("dotted.name", None),
            ("back\\\\slash", Some(json!(2))),
            (".", Some(record.clone())),
        ] {
            let read = Path::read(path).unwrap();
            assert_eq!(read.find(&record), expected.as_ref(), "{path}");
            assert_eq!(Path::read(&read.to_string()), Ok(read), "{path}");
        }
        assert_eq!(Path::of_name("dotted.name").find(&record), Some(&json!(1)));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", "a..b", ".a", "a.", "a\\", "a\\b"] {
            assert!(Path::read(text).is_err(), "{text}");
        }
    }
}
