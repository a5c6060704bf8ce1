//! Answers to batches: a result for each entry, in the order of the request.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::problem::Code;
use crate::time::Time;

/// The answer to a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Results<T> {
    /// One for each entry, in order.
    pub results: Vec<Outcome<T>>,
}

/// What became of one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Outcome<T> {
    /// It was taken (`ok` is true).
    Taken(T),
    /// It was refused (`ok` is false); the others are not touched by that.
    Refused(RefusedEntry),
}

impl<T> Outcome<T> {
    /// The same as a `Result`.
    pub fn into_result(self) -> Result<T, EntryError> {
        match self {
            Self::Taken(taken) => Ok(taken),
            Self::Refused(refused) => Err(refused.error),
        }
    }
}

/// An entry that was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedEntry {
    /// Always false.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::False))]
    pub ok: Is<false>,
    /// Why.
    pub error: EntryError,
}

impl From<EntryError> for RefusedEntry {
    fn from(error: EntryError) -> Self {
        Self { ok: Is, error }
    }
}

/// Why an entry was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EntryError {
    /// What programs branch on.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::problem::Code))]
    pub code: String,
    /// What is wrong, and what would be right; for people.
    pub detail: String,
    /// Where in the request, where it is the request that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Seconds until the next place is free, where a limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_time_seconds: Option<u64>,
    /// Who holds the review, where somebody else does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub assigned_to: Option<Box<str>>,
    /// Until when, unless they ask for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
}

impl EntryError {
    /// An error with no more to say than this.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_owned(),
            detail: detail.into(),
            path: None,
            wait_time_seconds: None,
            assigned_to: None,
            lease_expires_at: None,
        }
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

impl std::error::Error for EntryError {}

/// A boolean that is always the same; it tells the two kinds of results apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Is<const VALUE: bool>;

impl<const VALUE: bool> Serialize for Is<VALUE> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(VALUE)
    }
}

impl<'de, const VALUE: bool> Deserialize<'de> for Is<VALUE> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? == VALUE {
            true => Ok(Self),
            false => Err(D::Error::custom("is another kind of result")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Released;
    use serde_json::json;

    #[test]
    fn results_are_told_apart_by_ok() {
        let text = json!({ "results": [
            { "ok": true },
            { "ok": false, "error": { "code": "lease_lost", "detail": "the lease is no longer held" } },
        ]});
        let read: Results<Released> = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), text);
        let results: Vec<_> = read.results.into_iter().map(Outcome::into_result).collect();
        assert!(results[0].is_ok());
        assert_eq!(results[1].as_ref().unwrap_err().code, "lease_lost");
    }
}
