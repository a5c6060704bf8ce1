//! Structured fields (RFC 9651): a header that is a dictionary. Of its values only byte sequences are kept, which is all that is asked for
//! here; but all of it has to be well formed, or none of it is believed.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// As the RFC has it: readers are not strict about padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A value of a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    /// A byte sequence.
    Bytes(Vec<u8>),
    /// Anything else.
    Other,
}

/// What a dictionary says of this key, where several say something the last one; none where the text is no dictionary.
pub(crate) fn member(text: &str, key: &str) -> Option<Option<Member>> {
    let mut reader = Reader(text.trim_matches(' ').as_bytes());
    let mut found = None;
    while !reader.0.is_empty() {
        let name = reader.key()?;
        let value = match reader.eats(b'=') {
            true => reader.member()?,
            false => Member::Other,
        };
        reader.parameters()?;
        if name == key.as_bytes() {
            found = Some(value);
        }
        reader.skip(|byte| matches!(byte, b' ' | b'\t'));
        if reader.0.is_empty() {
            break;
        }
        reader.expect(b',')?;
        reader.skip(|byte| matches!(byte, b' ' | b'\t'));
        // A comma is followed by another member.
        reader.peek()?;
    }
    Some(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn eats(&mut self, wanted: u8) -> bool {
        let eats = self.peek() == Some(wanted);
        if eats {
            self.next();
        }
        eats
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        self.eats(wanted).then_some(())
    }

    /// What comes next of this kind.
    fn skip(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !is_wanted(*byte));
        let (skipped, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        skipped
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        self.peek()
            .filter(|byte| byte.is_ascii_lowercase() || *byte == b'*')?;
        Some(self.skip(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eats(b';') {
            self.skip(|byte| byte == b' ');
            self.key()?;
            if self.eats(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// An item or an inner list, but for its parameters.
    fn member(&mut self) -> Option<Member> {
        if !self.eats(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(|byte| byte == b' ');
            if self.eats(b')') {
                return Some(Member::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            // Items stand apart from each other.
            self.peek().filter(|byte| matches!(byte, b' ' | b')'))?;
        }
    }

    fn bare_item(&mut self) -> Option<Member> {
        match self.peek()? {
            b':' => return self.bytes(),
            b'"' => self.string()?,
            b'%' => self.display_string()?,
            b'?' => {
                self.next();
                self.next().filter(|byte| matches!(byte, b'0' | b'1'))?;
            }
            b'@' => {
                self.next();
                self.number(false)?;
            }
            b'-' | b'0'..=b'9' => self.number(true)?,
            byte if byte.is_ascii_alphabetic() || byte == b'*' => {
                self.skip(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte));
            }
            _ => return None,
        }
        Some(Member::Other)
    }

    fn bytes(&mut self) -> Option<Member> {
        self.expect(b':')?;
        let encoded = self.skip(|byte| byte != b':');
        self.expect(b':')?;
        BASE64.decode(encoded).ok().map(Member::Bytes)
    }

    /// An integer of up to 15 digits, or a decimal of up to 12 and 3.
    fn number(&mut self, may_be_decimal: bool) -> Option<()> {
        self.eats(b'-');
        let whole = self.skip(|byte| byte.is_ascii_digit()).len();
        if !(may_be_decimal && self.eats(b'.')) {
            return (1..=15).contains(&whole).then_some(());
        }
        let fraction = self.skip(|byte| byte.is_ascii_digit()).len();
        ((1..=12).contains(&whole) && (1..=3).contains(&fraction)).then_some(())
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => {
                    self.next().filter(|byte| matches!(byte, b'"' | b'\\'))?;
                }
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    fn display_string(&mut self) -> Option<()> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        let mut decoded = Vec::new();
        loop {
            match self.next()? {
                b'"' => return std::str::from_utf8(&decoded).ok().map(drop),
                b'%' => decoded.push(self.hex_digit()? << 4 | self.hex_digit()?),
                byte @ b' '..=b'~' => decoded.push(byte),
                _ => return None,
            }
        }
    }

    fn hex_digit(&mut self) -> Option<u8> {
        match self.next()? {
            byte @ b'0'..=b'9' => Some(byte - b'0'),
            byte @ b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_in_any_dictionary() {
        let bytes = |bytes: &[u8]| Some(Member::Bytes(bytes.to_vec()));
        for (text, found) in [
            ("", None),
            ("  ", None),
            ("b=1", None),
            ("a=:aGk=:", bytes(b"hi")),
            ("a=:aGk:", bytes(b"hi")),
            ("a=::", bytes(b"")),
            (" a=:aGk=: ", bytes(b"hi")),
            ("a=:aGk=:;q=1;x;y=\"z\"", bytes(b"hi")),
            ("b=:eA==:,a=:aGk=:", bytes(b"hi")),
            ("b ,\t a=:aGk=: , c", bytes(b"hi")),
            ("a=1, a=:aGk=:", bytes(b"hi")),
            ("a=:aGk=:, a=1", Some(Member::Other)),
            ("a", Some(Member::Other)),
            ("a;x=1", Some(Member::Other)),
            ("a=x/y:z", Some(Member::Other)),
            (
                "a=-1.5, b=\"\\\"\\\\,\", c=?1, d=@1659578233, e=%\"caf%c3%a9\"",
                Some(Member::Other),
            ),
            ("a=(), b=(1 \"x\";q  :eA==:);p, *c.d-e_1", Some(Member::Other)),
        ] {
            assert_eq!(member(text, "a"), Some(found), "{text}");
        }
    }

    #[test]
    fn what_is_no_dictionary_says_nothing() {
        for text in [
            ",",
            "a,",
            "a,,b",
            "=1",
            "A=1",
            "1=a",
            "a=",
            "a =1",
            "a= 1",
            "a b",
            "a=:aGk=",
            "a=:a*k=:",
            "a=:a:",
            "a=\"x",
            "a=\"\\x\"",
            "a=\"\u{7f}\"",
            "a=1.",
            "a=.5",
            "a=1.2345",
            "a=1234567890123456",
            "a=--1",
            "a=?2",
            "a=@1.5",
            "a=(1",
            "a=(1\t2)",
            "a=(1\"x\")",
            "a=%x",
            "a=%\"%C3\"",
            "a=%\"%ff\"",
            "a;=1",
            "a;b=",
            "a=é",
            "sha-256=x y",
            "\ta",
        ] {
            assert_eq!(member(text, "a"), None, "{text}");
        }
    }
}
