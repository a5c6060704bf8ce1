//! The lines of an export: a header, blocks of entries each with its seal, entries that are not sealed yet, and an end.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Block, Record, Salt};
use crate::clock::Timestamp;
use crate::content::Digest;

/// The name of the format.
pub(super) const FORMAT: &str = "docket-audit-1";

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// What follows.
    Header(Header),
    /// A sealed entry.
    Entry(Box<SealedEntry>),
    /// Entries that are not shown.
    Hidden(Hidden),
    /// The seal of the entries before it.
    Seal(Block),
    /// An entry that no block has yet.
    Unsealed(Box<Record>),
    /// Nothing follows.
    End(End),
}

impl Header {
    /// The header of an export of everything, or of what is one tenant's.
    pub fn new(tenant: Option<String>, exported_at: Timestamp) -> Self {
        Self {
            format: FORMAT.to_owned(),
            tenant,
            exported_at_ms: exported_at.ms(),
        }
    }
}

impl Line {
    /// Its text, without the line's end.
    pub fn to_text(&self) -> String {
        // Writing numbers, texts and options into a string cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What an export is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// Whose entries are shown; none for everybody's.
    pub tenant: Option<String>,
    /// When it was made.
    pub exported_at_ms: i64,
}

/// An entry within its block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SealedEntry {
    /// Its number among all that were ever sealed, from 1.
    pub number: u64,
    /// What it is hashed with.
    pub salt: Salt,
    /// Its hash.
    pub hash: Digest,
    /// The entry itself.
    pub record: Record,
}

/// Entries in whose place the hash of their subtree stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hidden {
    /// The number of the first.
    pub number: u64,
    /// There are 2^height of them.
    pub height: u32,
    /// The root of the tree over their hashes.
    pub hash: Digest,
}

/// What an export must have had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct End {
    /// How many blocks.
    pub blocks: u64,
    /// How many sealed entries, hidden ones among them.
    pub entries: u64,
    /// How many of them are shown.
    pub shown: u64,
    /// How many are shown that are not sealed yet.
    pub unsealed: u64,
    /// The hash of the last block.
    pub head: Option<Digest>,
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N
        || text
            .bytes()
            .any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

impl Digest {
    /// A digest read back from its text.
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::<32>(text).and_then(|bytes| Self::from_bytes(&bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| de::Error::custom("a hash has 64 hexadecimal digits"))
    }
}

impl Serialize for Salt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Salt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex(&text)
            .map(Self)
            .ok_or_else(|| de::Error::custom("a salt has 32 hexadecimal digits"))
    }
}
