//! The check of an export, line by line in flat memory: is it whole, and what is the first thing that is not?
//!
//! A line that was changed, dropped, added or moved is named by itself. Where somebody has changed an entry together with its
//! hash, its block is named: nothing in the file tells more. Where somebody has sealed everything anew, or cut blocks off at the
//! end, only a head that was kept elsewhere shows it.

use std::fmt;

use super::line::FORMAT;
use super::{Block, End, Header, Hidden, Line, Record, SealedEntry, Tree};
use crate::content::Digest;
use crate::log::LogPosition;

/// What kind of fault was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words speak for themselves")]
pub enum FaultKind {
    Missing,
    Added,
    Changed,
    Reordered,
    /// A seal is not the one that was made, or the chain is broken.
    Seal,
    /// The file ends too early, or its end does not fit.
    CutOff,
    /// The head that was expected is not in it.
    OtherHead,
    /// A line is no line of an export.
    Malformed,
}

/// The first thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: u64,
    /// What kind it is.
    pub kind: FaultKind,
    /// The entry, where one is known by its position.
    pub position: Option<LogPosition>,
    /// What is wrong, in words.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for Fault {}

/// What was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose entries were shown; none for everybody's.
    pub tenant: Option<String>,
    /// How many blocks are whole.
    pub blocks: u64,
    /// How many sealed entries they have, hidden ones among them.
    pub entries: u64,
    /// How many of these were shown.
    pub shown: u64,
    /// How many more were shown that nothing proves yet.
    pub unsealed: u64,
    /// The hash of the last block.
    pub head: Option<Digest>,
    /// Whether the head that was expected is among the blocks.
    pub head_found: Option<bool>,
}

/// Something that the next line will explain.
#[derive(Clone, Debug)]
enum Suspect {
    /// An entry does not match its hash: it was changed, or, if the next has the same number, added.
    Mismatch { number: u64, fault: Fault },
    /// A number is missing: the entry was dropped, or, if it comes later, moved.
    Gap { number: u64, fault: Fault },
}

/// Takes an export line by line.
#[derive(Debug)]
pub struct Verifier {
    expected_head: Option<Digest>,
    head_found: bool,
    line: u64,
    header: Option<Header>,
    block: Option<Block>,
    tree: Tree,
    /// The last line of the block under way that shows an entry.
    last: Option<(u64, LogPosition)>,
    /// The last position shown so far.
    passed: Option<LogPosition>,
    shown: u64,
    unsealed: u64,
    suspect: Option<Suspect>,
    end: Option<End>,
}

impl Verifier {
    /// A check of one export; with a head, also that it has the block with this hash.
    pub fn new(expected_head: Option<Digest>) -> Self {
        Self {
            expected_head,
            head_found: false,
            line: 0,
            header: None,
            block: None,
            tree: Tree::default(),
            last: None,
            passed: None,
            shown: 0,
            unsealed: 0,
            suspect: None,
            end: None,
        }
    }

    /// How many sealed entries were taken so far.
    pub fn entries(&self) -> u64 {
        self.before() + self.tree.leaves()
    }

    /// Takes the next line.
    pub fn take(&mut self, text: &str) -> Result<(), Fault> {
        self.line += 1;
        let line: Line = serde_json::from_str(text).map_err(|error| {
            let text = format!("this is no line of an export of Docket's log: {error}");
            self.fault(FaultKind::Malformed, None, text)
        })?;
        if self.end.is_some() {
            let text = "something was added after the end of the export".to_owned();
            return Err(self.fault(FaultKind::Added, None, text));
        }
        if self.header.is_none() != matches!(line, Line::Header(_)) {
            let text = "an export has one header, and it is its first line".to_owned();
            return Err(self.fault(FaultKind::Malformed, None, text));
        }
        match line {
            Line::Header(header) => self.header(header),
            Line::Entry(entry) => self.entry(&entry),
            Line::Hidden(hidden) => self.hidden(&hidden),
            Line::Seal(block) => self.seal(block),
            Line::Unsealed(record) => self.unsealed(&record),
            Line::End(end) => self.end(end),
        }
    }

    /// All lines were taken.
    pub fn finish(mut self) -> Result<Report, Fault> {
        self.resolve(None)?;
        let Some(header) = self.header.take() else {
            return Err(self.fault(FaultKind::CutOff, None, "the file is empty".to_owned()));
        };
        let blocks = self.block.as_ref().map_or(0, |block| block.number);
        if self.end.is_none() {
            let text = format!("the file ends in the middle: it was cut off after block {blocks}");
            return Err(self.fault(FaultKind::CutOff, None, text));
        }
        if let (Some(expected), false) = (self.expected_head, self.head_found) {
            let text = format!(
                "no block has the hash {expected}: blocks were cut off at the end, or this is another log, or one that was \
                 sealed anew"
            );
            return Err(self.fault(FaultKind::OtherHead, None, text));
        }
        Ok(Report {
            tenant: header.tenant,
            blocks,
            entries: self.before(),
            shown: self.shown,
            unsealed: self.unsealed,
            head: self.block.map(|block| block.hash),
            head_found: self.expected_head.map(|_| self.head_found),
        })
    }

    fn fault(&self, kind: FaultKind, position: Option<LogPosition>, text: String) -> Fault {
        Fault {
            line: self.line,
            kind,
            position,
            text,
        }
    }

    /// How many entries the whole blocks have.
    fn before(&self) -> u64 {
        self.block
            .as_ref()
            .map_or(0, |block| block.before + block.entries)
    }

    fn is_partial(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.tenant.is_some())
    }

    fn header(&mut self, header: Header) -> Result<(), Fault> {
        if header.format != FORMAT {
            let text = format!("the format is '{}'; this Docket checks '{FORMAT}'", header.format);
            return Err(self.fault(FaultKind::Malformed, None, text));
        }
        self.header = Some(header);
        Ok(())
    }

    /// Says what a suspect was, now that the next line is known: the number of the entry there, or none.
    fn resolve(&mut self, next: Option<u64>) -> Result<(), Fault> {
        match (self.suspect.take(), next) {
            (None, _) => Ok(()),
            (Some(Suspect::Mismatch { number, mut fault }), Some(next)) if next == number => {
                fault.kind = FaultKind::Added;
                fault.text = fault.text.replace("was changed", "was added");
                Err(fault)
            }
            (Some(Suspect::Mismatch { fault, .. }), _) | (Some(Suspect::Gap { fault, .. }), None) => {
                Err(fault)
            }
            (Some(Suspect::Gap { number, mut fault }), Some(next)) if next == number => {
                fault.kind = FaultKind::Reordered;
                fault.text = format!(
                    "entry {number} stands in the wrong place: it comes only at line {}",
                    self.line
                );
                Err(fault)
            }
            (gap, _) => {
                // The one that is looked for may still come, until the block ends.
                self.suspect = gap;
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: &SealedEntry) -> Result<(), Fault> {
        self.resolve(Some(entry.number))?;
        if self.suspect.is_some() {
            return Ok(());
        }
        let (number, position) = (entry.number, entry.record.position);
        let name = format!("entry {number} ({position}, {})", entry.record.action);
        if self.unsealed > 0 {
            let text = format!("{name} was added: it stands among those that are not sealed yet");
            return Err(self.fault(FaultKind::Added, Some(position), text));
        }
        let expected = self.entries() + 1;
        if number < expected {
            let text = match self.last {
                Some((line, other)) if number + 1 == expected => format!(
                    "{name} was added, or the one of line {line} was ({other}): both claim to be entry {number}"
                ),
                _ => format!("{name} was added, or moved here: entry {number} came before"),
            };
            return Err(self.fault(FaultKind::Added, Some(position), text));
        }
        if number > expected {
            let before = self
                .passed
                .map_or_else(String::new, |passed| format!(" after {passed}"));
            let text = format!("entry {expected} is missing{before}: {name} stands in its place");
            let fault = self.fault(FaultKind::Missing, self.passed, text);
            self.suspect = Some(Suspect::Gap {
                number: expected,
                fault,
            });
            return Ok(());
        }
        if entry.record.hash(entry.salt) != entry.hash {
            let text = format!("{name} was changed: it does not match its hash");
            let fault = self.fault(FaultKind::Changed, Some(position), text);
            self.suspect = Some(Suspect::Mismatch { number, fault });
            return Ok(());
        }
        let foreign = self.header.as_ref().and_then(|header| header.tenant.as_ref());
        if foreign.is_some() && foreign != entry.record.tenant_id.as_ref() {
            let text = format!("{name} was added: it is another tenant's");
            return Err(self.fault(FaultKind::Added, Some(position), text));
        }
        self.rises(position, &name)?;
        self.tree.push_leaf(entry.hash);
        self.last = Some((self.line, position));
        self.shown += 1;
        Ok(())
    }

    fn rises(&mut self, position: LogPosition, name: &str) -> Result<(), Fault> {
        if let Some(passed) = self.passed.filter(|passed| *passed >= position) {
            let text = format!("{name} stands in the wrong place: it comes after {passed}");
            return Err(self.fault(FaultKind::Reordered, Some(position), text));
        }
        self.passed = Some(position);
        Ok(())
    }

    fn hidden(&mut self, hidden: &Hidden) -> Result<(), Fault> {
        self.resolve(Some(hidden.number))?;
        if self.suspect.is_some() {
            return Ok(());
        }
        let number = hidden.number;
        if !self.is_partial() {
            let text =
                format!("entry {number} and what follows it is hidden, but this is an export of everything");
            return Err(self.fault(FaultKind::Missing, self.passed, text));
        }
        let expected = self.entries() + 1;
        if number < expected || self.unsealed > 0 {
            let text = format!("hidden entries from {number} on were added, or moved here");
            return Err(self.fault(FaultKind::Added, self.passed, text));
        }
        if number > expected {
            let text =
                format!("entry {expected} is missing: hidden ones from {number} on stand in its place");
            let fault = self.fault(FaultKind::Missing, self.passed, text);
            self.suspect = Some(Suspect::Gap {
                number: expected,
                fault,
            });
            return Ok(());
        }
        if !self.tree.push(hidden.height, hidden.hash) {
            let text =
                format!("hidden entries from {number} on do not fit where they stand: the line was changed");
            return Err(self.fault(FaultKind::Changed, self.passed, text));
        }
        Ok(())
    }

    fn seal(&mut self, block: Block) -> Result<(), Fault> {
        self.resolve(None)?;
        let number = self.block.as_ref().map_or(1, |block| block.number + 1);
        if self.unsealed > 0 {
            let text = "a seal was added after entries that are not sealed yet".to_owned();
            return Err(self.fault(FaultKind::Added, None, text));
        }
        if let Err(text) = block.check_after(self.block.as_ref()) {
            return Err(self.fault(FaultKind::Seal, None, text));
        }
        let leaves = self.tree.leaves();
        let wholly_hidden = leaves == 0 && self.is_partial();
        if leaves < block.entries && !wholly_hidden {
            let text = format!(
                "entry {} is missing: block {number} has {} entries, and the last {} of them are not there",
                self.entries() + 1,
                block.entries,
                block.entries - leaves
            );
            return Err(self.fault(FaultKind::Missing, self.passed, text));
        }
        if leaves > block.entries {
            let text = format!(
                "block {number} has {} entries, but {leaves} are there: some were added",
                block.entries
            );
            return Err(self.fault(FaultKind::Added, self.passed, text));
        }
        if !wholly_hidden && self.tree.root() != block.root {
            let text = format!(
                "the entries of block {number} ({} to {}) are not those that were sealed: one was changed or put in \
                 another's place, and its hash with it",
                block.first, block.last
            );
            return Err(self.fault(FaultKind::Changed, Some(block.first), text));
        }
        self.head_found |= self.expected_head == Some(block.hash);
        self.passed = self.passed.max(Some(block.last));
        (self.tree, self.last) = (Tree::default(), None);
        self.block = Some(block);
        Ok(())
    }

    fn unsealed(&mut self, record: &Record) -> Result<(), Fault> {
        self.resolve(None)?;
        let name = format!("{} ({})", record.position, record.action);
        if self.tree.leaves() > 0 {
            let number = self.block.as_ref().map_or(1, |block| block.number + 1);
            let text = format!("the seal of block {number} is missing, or {name} was added before it");
            return Err(self.fault(FaultKind::Seal, Some(record.position), text));
        }
        self.rises(record.position, &name)?;
        self.unsealed += 1;
        Ok(())
    }

    fn end(&mut self, end: End) -> Result<(), Fault> {
        self.resolve(None)?;
        let blocks = self.block.as_ref().map_or(0, |block| block.number);
        let cut_off = |what: String| format!("the export was cut off, or its end was changed: {what}");
        let text = if self.tree.leaves() > 0 {
            format!("the seal of block {} is missing", blocks + 1)
        } else if end.blocks != blocks || end.head != self.block.as_ref().map(|block| block.hash) {
            cut_off(format!("it had {} blocks, and {blocks} are there", end.blocks))
        } else if end.entries != self.before() || end.shown != self.shown {
            let (had, there) = (end.shown, self.shown);
            cut_off(format!("it showed {had} sealed entries, and {there} are there"))
        } else if end.unsealed != self.unsealed {
            let (had, there) = (end.unsealed, self.unsealed);
            cut_off(format!(
                "it had {had} entries that were not sealed yet, and {there} are there"
            ))
        } else {
            self.end = Some(end);
            return Ok(());
        };
        Err(self.fault(FaultKind::CutOff, self.passed, text))
    }
}
