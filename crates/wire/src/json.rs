//! JSON text before it is read: whether its numbers stay what they are, and what it would take in memory.
//!
//! A reader of JSON makes the nearest float of a whole number of more than 64 bits, and so one number of two different ones: content
//! would be lost, and one payload taken for another. Such a number is refused, with its place. A tree of values takes up to a
//! hundred times the memory of its text: that is told beforehand, by one pass over the bytes that holds no more than where it is.
//!
//! Deliberately absent: whether the text is JSON at all. What is none is looked at as far as it goes, and its reader says what is wrong.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeOwned, Error as _};

/// A value in its place in an array.
const VALUE: usize = 32;
/// The places that an array begins with.
const FIRST_VALUES: usize = 4;
/// A node of an object's tree, and how many members it has at least, but for the root.
const NODE: usize = 640;
const NODE_MEMBERS: usize = 6;
/// What a text takes besides its bytes.
const TEXT: usize = 24;
/// No reader goes deeper.
const DEPTH_MAX: usize = 128;
/// A whole number of so many digits has less than 64 bits.
const SURE_DIGITS: usize = 18;
/// What is longer is no float's own text: programs write those with an exponent.
const FLOAT_DIGITS_MAX: usize = 32;
/// So much is shown of a name or a number.
const SHOWN_MAX: usize = 60;

/// Why a text is not to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A whole number that no reader keeps as it is.
    Inexact {
        /// Where; empty for the whole.
        path: String,
        /// Its beginning.
        number: String,
    },
    /// Its values would take more memory than they may.
    TooMuch,
    /// It is nested deeper than anybody reads.
    TooDeep,
}

impl Unfit {
    /// What is wrong, and what would be right, without its place.
    pub fn problem(&self) -> String {
        match self {
            Self::Inexact { number, .. } => {
                format!(
                    "the whole number {number} has more than 64 bits and would be rounded; send it as a string"
                )
            }
            Self::TooMuch => "its values would take too much memory".to_owned(),
            Self::TooDeep => format!("is nested deeper than {DEPTH_MAX} levels"),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inexact { path, .. } if !path.is_empty() => write!(f, "{path}: {}", self.problem()),
            _ => f.write_str(&self.problem()),
        }
    }
}

impl std::error::Error for Unfit {}

/// About how many bytes the values of a text would take; refuses more than `max`, and numbers that would not stay what they are.
pub fn weigh(text: &[u8], max: usize) -> Result<usize, Unfit> {
    Scan {
        text,
        max,
        weight: 0,
        within: Vec::new(),
    }
    .run()
}

/// Reads a text, and refuses it where a number would not stay what it is.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    // What is no JSON, because it is cut off perhaps, is that before anything else.
    let read = serde_json::from_slice(text)?;
    weigh(text, usize::MAX).map_err(serde_json::Error::custom)?;
    Ok(read)
}

/// An array or an object whose end was not seen yet.
struct Frame {
    is_object: bool,
    entries: usize,
    /// The latest member's name, in its quotes.
    name: Range<usize>,
    /// Whether a value, not a name, comes next in an object.
    is_named: bool,
}

struct Scan<'a> {
    text: &'a [u8],
    max: usize,
    weight: usize,
    within: Vec<Frame>,
}

impl Scan<'_> {
    fn run(mut self) -> Result<usize, Unfit> {
        let mut at = 0;
        while let Some(byte) = self.text.get(at) {
            at = match byte {
                b'"' => self.string(at)?,
                b'{' | b'[' => self.begin(at, *byte == b'{')?,
                b'}' | b']' => {
                    self.within.pop();
                    at + 1
                }
                b',' => {
                    if let Some(frame) = self.within.last_mut() {
                        frame.is_named = false;
                    }
                    at + 1
                }
                b'-' | b'0'..=b'9' => self.number(at)?,
                byte if byte.is_ascii_alphabetic() => {
                    self.value()?;
                    self.end_of(at, u8::is_ascii_alphabetic)
                }
                _ => at + 1,
            };
        }
        Ok(self.weight)
    }

    fn end_of(&self, begin: usize, belongs: impl Fn(&u8) -> bool) -> usize {
        let rest = &self.text[begin..];
        rest.iter()
            .position(|byte| !belongs(byte))
            .map_or(self.text.len(), |length| begin + length)
    }

    fn add(&mut self, bytes: usize) -> Result<(), Unfit> {
        self.weight = self.weight.saturating_add(bytes);
        match self.weight > self.max {
            true => Err(Unfit::TooMuch),
            false => Ok(()),
        }
    }

    /// A value begins: it takes a place in what it is within.
    fn value(&mut self) -> Result<(), Unfit> {
        let Some(frame) = self.within.last_mut() else {
            return self.add(VALUE);
        };
        frame.entries += 1;
        let bytes = match (frame.is_object, frame.entries) {
            (true, entry) if entry % NODE_MEMBERS == 1 => NODE,
            (false, 1) => FIRST_VALUES * VALUE,
            (false, entry) if entry > FIRST_VALUES => VALUE,
            _ => 0,
        };
        self.add(bytes)
    }

    fn begin(&mut self, at: usize, is_object: bool) -> Result<usize, Unfit> {
        self.value()?;
        if self.within.len() == DEPTH_MAX {
            return Err(Unfit::TooDeep);
        }
        self.within.push(Frame {
            is_object,
            entries: 0,
            name: 0..0,
            is_named: false,
        });
        Ok(at + 1)
    }

    fn string(&mut self, begin: usize) -> Result<usize, Unfit> {
        let mut at = begin + 1;
        let end = loop {
            let rest = self.text.get(at..).unwrap_or_default();
            match rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
                None => break self.text.len(),
                Some(length) if rest[length] == b'"' => break at + length,
                // What is escaped ends nothing.
                Some(length) => at += length + 2,
            }
        };
        let next = (end + 1).min(self.text.len());
        match self.within.last_mut() {
            Some(frame) if frame.is_object && !frame.is_named => {
                frame.name = begin..next;
                frame.is_named = true;
            }
            _ => self.value()?,
        }
        if end > begin + 1 {
            self.add(end - begin - 1 + TEXT)?;
        }
        Ok(next)
    }

    fn number(&mut self, begin: usize) -> Result<usize, Unfit> {
        self.value()?;
        let end = self.end_of(begin, |byte| {
            matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')
        });
        let number = &self.text[begin..end];
        match number.len() <= SURE_DIGITS || is_kept(number) {
            true => Ok(end),
            false => Err(Unfit::Inexact {
                path: self.path(),
                number: shown(&String::from_utf8_lossy(number)),
            }),
        }
    }

    /// Where the latest value is, as `items[3].payload.amount`.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.within {
            if !frame.is_object {
                path.push_str(&format!("[{}]", frame.entries.saturating_sub(1)));
                continue;
            }
            let name = serde_json::from_slice::<String>(&self.text[frame.name.clone()]);
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&shown(&name.unwrap_or_default()));
        }
        path
    }
}

/// Whether a number is a float, of which the nearest is kept; or whole and within 64 bits; or the text of a float that some programs write
/// without an exponent (`1e20` as `100000000000000000000`), of which there is one for each.
fn is_kept(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    if !digits.iter().all(u8::is_ascii_digit) {
        return true;
    }
    let text = std::str::from_utf8(number).unwrap_or_default();
    let is_float =
        || text.len() <= FLOAT_DIGITS_MAX && text.parse::<f64>().is_ok_and(|float| float.to_string() == text);
    text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok() || is_float()
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn inexact(text: &str) -> Option<String> {
        match weigh(text.as_bytes(), usize::MAX) {
            Ok(_) => None,
            Err(unfit) => Some(unfit.to_string()),
        }
    }

    #[test]
    fn whole_numbers_of_64_bits_floats_and_digits_in_texts_are_taken() {
        for text in [
            "18446744073709551615",
            "-9223372036854775808",
            "9223372036854775807",
            "-0",
            "1e30",
            "123456789012345678901234567890.5",
            "100000000000000000000.0",
            // As JavaScript writes 1e20 and 1.8446744073709552e19.
            "100000000000000000000",
            "-100000000000000000000",
            "18446744073709552000",
            "1E+30",
            r#""123456789012345678901234567890""#,
            r#"{"123456789012345678901234567890": "\\\"123456789012345678901234567890"}"#,
        ] {
            assert_eq!(inexact(text), None, "{text}");
            read::<Value>(text.as_bytes()).unwrap();
        }
    }

    #[test]
    fn a_whole_number_of_more_than_64_bits_is_refused_with_its_place() {
        for (text, path) in [
            ("18446744073709551616", ""),
            ("-9223372036854775809", ""),
            ("[1, [2], 123456789012345678901]", "[2]: "),
            (
                r#"{"items": [{"payload": 1}, {"payload": {"a": "x\"]", "b": [{}, 123456789012345678901]}}]}"#,
                "items[1].payload.b[1]: ",
            ),
            (r#"{"a": {"b": 1}, "\u00e4\n": 123456789012345678901}"#, "ä\n: "),
        ] {
            let said = inexact(text).unwrap();
            assert!(said.starts_with(&format!("{path}the whole number ")), "{said}");
            assert!(said.ends_with("; send it as a string"), "{said}");
            assert_eq!(read::<Value>(text.as_bytes()).unwrap_err().to_string(), said);
        }
        let long = format!("{{\"{}\": {}}}", "k".repeat(1_000), "9".repeat(1_000));
        assert!(inexact(&long).unwrap().len() < 300);
        // What is cut off may go on otherwise.
        let cut = read::<Value>(b"[123456789012345678901").unwrap_err();
        assert!(cut.is_eof(), "{cut}");
    }

    #[test]
    fn what_is_no_json_is_looked_at_without_a_fault() {
        let text = r#"{"a\u00e4": [1, -2.5e3, true, null, "x\\"], "b": {"c": {}}}"#.as_bytes();
        for begin in 0..text.len() {
            for end in begin..text.len() {
                weigh(&text[begin..end], usize::MAX).unwrap();
            }
        }
        for text in ["", "\"", "\"\\", "}]", "{{", "[,,:", "-", "\u{feff}"] {
            weigh(text.as_bytes(), usize::MAX).unwrap();
        }
        assert_eq!(weigh(&b"[".repeat(1_000), usize::MAX), Err(Unfit::TooDeep));
        assert!(weigh(&b"[".repeat(100), usize::MAX).is_ok());
    }

    #[test]
    fn the_weight_is_about_what_the_values_take() {
        let weight = |text: &str| weigh(text.as_bytes(), usize::MAX).unwrap();
        assert_eq!(weight("0"), VALUE);
        assert_eq!(weight("{}"), VALUE);
        assert_eq!(weight("[1]"), VALUE + 4 * VALUE);
        assert_eq!(weight("[1, 2, 3, 4, 5]"), VALUE + 5 * VALUE);
        assert_eq!(weight(r#"{"": 0}"#), VALUE + NODE);
        assert_eq!(
            weight(r#"{"a": "bc", "d": ""}"#),
            VALUE + NODE + 2 * (1 + TEXT) + 2 + TEXT
        );
        let members: Vec<_> = (0..12).map(|n| format!("\"\": {n}")).collect();
        assert_eq!(weight(&format!("{{{}}}", members.join(","))), VALUE + 2 * NODE);
    }

    #[test]
    fn what_would_take_too_much_is_refused_before_it_is_read() {
        let objects = format!("[{}0]", "{\"\":0},".repeat(100_000));
        assert_eq!(weigh(objects.as_bytes(), 8 << 20), Err(Unfit::TooMuch));
        let numbers = format!("[{}0]", "0.123456789,".repeat(100_000));
        assert!(weigh(numbers.as_bytes(), 8 << 20).is_ok());
    }
}
