//! Entries of a batch that are read each by itself: one that cannot be read spoils no other.
//!
//! An entry has to be a JSON object, or the body has another shape than the contract's. What is in the object is held to the contract
//! as strictly as everywhere, and what is wrong with it is that entry's refusal.

use std::fmt;
use std::marker::PhantomData;

use docket_core::{Refusal, Refused};
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::extract::member_path;
use crate::strict::Strict;

/// An entry, or what is wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Entry<T>(pub(crate) Refused<T>);

impl<'de, T: DeserializeOwned> serde::Deserialize<'de> for Entry<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader(PhantomData)).map(Self)
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Reader<T> {
    type Value = Refused<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Refused<T>, A::Error> {
        let (mut members, mut twice) = (Map::new(), None);
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            if members.insert(name.clone(), value).is_some() {
                twice = Some(name);
            }
        }
        Ok(match twice {
            Some(name) => Err(Refusal::invalid(name, "is there twice")),
            None => read(Value::Object(members)),
        })
    }
}

fn read<T: DeserializeOwned>(entry: Value) -> Refused<T> {
    serde_path_to_error::deserialize(Strict(entry)).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.into_inner().to_string();
        Refusal::invalid(member_path(&path, &problem, ""), problem)
    })
}

#[cfg(test)]
mod tests {
    use docket_wire::review::Decision;
    use serde_json::json;

    use super::*;

    fn problem(text: &str) -> String {
        let read: Entry<Decision> = serde_json::from_str(text).unwrap();
        read.0.unwrap_err().under("decisions[2]").to_string()
    }

    #[test]
    fn what_is_wrong_with_an_entry_is_said_with_its_place() {
        let id = "01997a2c-5c00-7a3b-8c4d-5e6f708192a3";
        let with = |more: Value| {
            let mut entry = json!({ "queueId": id, "outcome": "approved" });
            entry
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            entry.to_string()
        };
        for (text, path) in [
            (with(json!({ "outcome": "maybe" })), "decisions[2].outcome: "),
            (with(json!({ "queueId": "7" })), "decisions[2].queueId: "),
            (with(json!({ "verdict": 1 })), "decisions[2].verdict: "),
            (with(json!({ "leaseToken": 1.5 })), "decisions[2].leaseToken: "),
            (
                with(json!({ "corrections": [{ "field": "a" }] })),
                "decisions[2].corrections[0].value: ",
            ),
            (json!({ "queueId": id }).to_string(), "decisions[2].outcome: "),
            (
                r#"{"outcome": "approved", "outcome": "rejected"}"#.to_owned(),
                "decisions[2].outcome: is there twice",
            ),
        ] {
            let said = problem(&text);
            assert!(said.starts_with(path), "{said}");
        }
        let read: Entry<Decision> = serde_json::from_str(&with(json!({ "outcome": "accepted" }))).unwrap();
        assert!(read.0.is_ok(), "the older word is taken");
    }

    #[test]
    fn what_is_no_object_is_no_entry() {
        for text in ["5", "\"approved\"", "[]", "null"] {
            assert!(serde_json::from_str::<Entry<Decision>>(text).is_err(), "{text}");
        }
    }
}
