//! What the other side said, made fit to keep.

use std::fmt;

use serde::Serialize;

/// The most characters kept of what a provider said.
pub const WORDS_MAX: usize = 500;

/// A provider's own words: one line, bounded, without control characters. Whatever arrives is made so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Words(String);

impl Words {
    /// Takes any text.
    pub fn new(text: impl AsRef<str>) -> Self {
        let mut kept = String::new();
        let mut count = 0;
        let mut gap = false;
        for c in text.as_ref().chars() {
            if c.is_whitespace() || c.is_control() {
                gap = !kept.is_empty();
                continue;
            }
            if count + usize::from(gap) >= WORDS_MAX {
                kept.push('…');
                break;
            }
            if gap {
                kept.push(' ');
                count += 1;
                gap = false;
            }
            kept.push(c);
            count += 1;
        }
        Self(kept)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Words> for String {
    fn from(words: Words) -> Self {
        words.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_bounded_line() {
        for (said, kept) in [
            ("250 Ok", "250 Ok"),
            ("  250-one\r\n250 two\t\n", "250-one 250 two"),
            ("a\0b\u{1b}[2J", "a b [2J"),
            ("", ""),
        ] {
            assert_eq!(Words::new(said).as_str(), kept);
        }
        let long = Words::new("é ".repeat(10_000));
        assert_eq!(long.as_str().chars().count(), WORDS_MAX);
        assert!(long.as_str().ends_with('…'));
    }
}
