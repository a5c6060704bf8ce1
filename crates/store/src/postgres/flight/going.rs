//! What goes to the server: the driver's messages, without the Syncs that can be left out.

use std::collections::VecDeque;
use std::io;

use bytes::BytesMut;

use super::{End, Message, Messages};

const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];

/// What the driver has said since its last Sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    /// Bound a prepared statement.
    Bound,
    /// Bound and executed one: what is answered by one completion.
    Executed,
    /// Anything else.
    Else,
}

/// A statement that begins or ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Border {
    Begin,
    End,
}

/// The way to the server.
#[derive(Debug, Default)]
pub(super) struct Going {
    /// What can be sent.
    pub(super) out: BytesMut,
    messages: Messages,
    said: Said,
    /// A Sync that is left out if another statement follows.
    owed: bool,
    /// Whether what follows is surely within a transaction.
    inside: bool,
    /// The prepared statements that begin or end transactions, by their names.
    borders: Vec<(Box<[u8]>, Border)>,
}

impl Going {
    /// Takes what the driver writes.
    pub(super) fn take(&mut self, bytes: &[u8], ends: &mut VecDeque<End>) -> io::Result<()> {
        let mut messages = std::mem::take(&mut self.messages);
        let taken = messages.take(bytes, |message| self.send(message, ends));
        self.messages = messages;
        taken
    }

    /// Sends the Sync that is owed: nothing more follows for now.
    pub(super) fn settle(&mut self, ends: &mut VecDeque<End>) {
        if std::mem::take(&mut self.owed) {
            self.out.extend_from_slice(&SYNC);
            ends.push_back(End::Said);
        }
    }

    fn send(&mut self, Message { kind, body, bytes }: Message<'_>, ends: &mut VecDeque<End>) {
        if kind == b'B' && std::mem::take(&mut self.owed) {
            ends.push_back(End::LeftOut);
        }
        self.settle(ends);
        self.note(kind, body);
        match kind {
            b'S' if self.said == Said::Executed && self.inside => self.owed = true,
            b'S' | b'Q' => {
                self.out.extend_from_slice(bytes);
                ends.push_back(End::Said);
            }
            _ => self.out.extend_from_slice(bytes),
        }
        if matches!(kind, b'S' | b'Q') {
            self.said = Said::Nothing;
        }
    }

    fn note(&mut self, kind: u8, body: &[u8]) {
        self.said = match (kind, self.said) {
            (b'B', Said::Nothing) => Said::Bound,
            (b'E', Said::Bound) => Said::Executed,
            (b'S' | b'Q', said) => said,
            _ => Said::Else,
        };
        let (name, rest) = word(body);
        match kind {
            // Parse: a name, then the text.
            b'P' => {
                self.forget(name);
                if let Some(border) = border(word(rest).0) {
                    self.borders.push((name.into(), border));
                }
            }
            // Close: what kind of thing, then its name.
            b'C' => {
                if let Some((b'S', name)) = body.split_first() {
                    self.forget(word(name).0);
                }
            }
            // Bind: a portal, then the statement's name.
            b'B' => {
                let name = word(rest).0;
                if let Some((_, border)) = self.borders.iter().find(|(known, _)| **known == *name) {
                    self.inside = *border == Border::Begin;
                }
            }
            // A text that nobody has looked at may do anything.
            b'Q' => self.inside = false,
            _ => {}
        }
    }

    fn forget(&mut self, name: &[u8]) {
        self.borders.retain(|(known, _)| **known != *name);
    }
}

/// What stands before the first zero, and what after it.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

fn border(text: &[u8]) -> Option<Border> {
    let first = text
        .split(u8::is_ascii_whitespace)
        .find(|word| !word.is_empty())?;
    let is = |known: &[&str]| {
        known
            .iter()
            .any(|word| first.eq_ignore_ascii_case(word.as_bytes()))
    };
    if is(&["begin", "start"]) {
        Some(Border::Begin)
    } else if is(&["commit", "end", "rollback", "abort", "prepare"]) {
        Some(Border::End)
    } else {
        None
    }
}
