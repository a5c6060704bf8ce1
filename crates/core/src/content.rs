//! Content: JSON and bytes as they come from outside, their checks and their digests (rules I4 and I7).

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::refusal::{Refusal, Refused};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digest of a JSON value, the same for every order of its properties and every white space.
    pub fn of_json(value: &Value) -> Self {
        // serde_json keeps the properties of an object sorted, so its text is canonical.
        Self::of(value.to_string().as_bytes())
    }

    /// Nothing but zeros, which is nobody's digest.
    pub const fn zero() -> Self {
        Self([0; 32])
    }

    /// The digest itself.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A digest read back from storage or from a header.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a digest while bytes pass by.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was taken.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// The text of a JSON value, checked: no larger than `limit` bytes and without a NUL in any string.
pub fn check_json(path: &'static str, value: &Value, limit: usize) -> Refused<String> {
    let text = value.to_string();
    if text.len() > limit {
        return Err(Refusal::TooLarge {
            what: path.into(),
            size: text.len() as u64,
            limit: limit as u64,
        });
    }
    // A NUL can only appear escaped in JSON text; look for the escape before walking the value.
    if text.contains("\\u0000") && has_nul(value) {
        return Err(Refusal::invalid(
            path,
            "must not contain the NUL character in a string",
        ));
    }
    Ok(text)
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(map) => map
            .iter()
            .any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Refuses a NUL in a text.
pub fn check_no_nul(path: &'static str, text: &str) -> Refused<()> {
    if text.contains('\0') {
        return Err(Refusal::invalid(path, "must not contain the NUL character"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_digest_is_sha_256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), expected);
        assert_eq!(
            Digest::from_bytes(Digest::of(b"abc").bytes()),
            Some(Digest::of(b"abc"))
        );
        assert_eq!(Digest::from_bytes(b"short"), None);
    }

    #[test]
    fn a_json_digest_does_not_depend_on_the_order_of_properties() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (a, b) = (parse(r#"{"a":1, "b":[2]}"#), parse(r#"{"b":[2],"a":1}"#));
        assert_eq!(Digest::of_json(&a), Digest::of_json(&b));
        assert_ne!(Digest::of_json(&a), Digest::of_json(&parse(r#"{"a":1,"b":[3]}"#)));
    }

    #[test]
    fn a_float_is_read_as_it_was_written_to_its_last_bit() {
        for n in 0..1_000_u64 {
            let float = f64::from_bits(0x3ff0_0000_0000_0001 + n * 0x0001_2345_6789_abcd);
            let text = Value::from(float).to_string();
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn json_is_checked_before_it_is_kept() {
        let cases = [
            (json!({"a": "fine"}), Ok(())),
            (json!({"a": "back\\u0000slash"}), Ok(())),
            (json!({"a": ["x\0y"]}), Err("validation_failed")),
            (json!({"x\0y": 1}), Err("validation_failed")),
            (json!("z".repeat(200)), Err("payload_too_large")),
        ];
        for (value, expected) in cases {
            let found = check_json("payload", &value, 100)
                .map(|_| ())
                .map_err(|refusal| refusal.code());
            assert_eq!(found, expected, "{value}");
        }
    }
}
