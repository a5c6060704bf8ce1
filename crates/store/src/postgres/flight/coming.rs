//! What comes from the server: its messages, with the ends of statements whose Sync was left out.

use std::collections::VecDeque;
use std::io;

use bytes::{BufMut as _, BytesMut};

use super::{End, Message, Messages};

/// Ready for the next statement, within a transaction.
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'T'];
/// Ready for nothing but the end of a transaction in which something failed.
const READY_AFTER_ERROR: [u8; 6] = [b'Z', 0, 0, 0, 5, b'E'];
/// How the server refuses a statement in such a transaction.
const REFUSED: &[u8] = b"SERROR\0VERROR\0C25P02\0Mcurrent transaction is aborted, \
    commands ignored until end of transaction block\0\0";

/// The way from the server.
#[derive(Debug, Default)]
pub(super) struct Coming {
    /// What the driver can read.
    pub(super) fit: BytesMut,
    /// Whether the server has finished its greeting.
    pub(super) greeted: bool,
    messages: Messages,
}

impl Coming {
    /// Takes what the server sent.
    pub(super) fn take(&mut self, bytes: &[u8], ends: &mut VecDeque<End>) -> io::Result<()> {
        let mut messages = std::mem::take(&mut self.messages);
        let taken = messages.take(bytes, |message| self.hand_on(message, ends));
        self.messages = messages;
        taken
    }

    fn hand_on(&mut self, Message { kind, body, bytes }: Message<'_>, ends: &mut VecDeque<End>) {
        self.fit.extend_from_slice(bytes);
        match kind {
            // A statement is complete.
            b'C' | b'I' | b's' if ends.front() == Some(&End::LeftOut) => {
                ends.pop_front();
                self.fit.extend_from_slice(&READY);
            }
            // After a fatal one the server says nothing more.
            b'E' if !is_fatal(body) => self.refuse_the_rest(ends),
            b'Z' => {
                self.greeted = true;
                ends.pop_front();
            }
            _ => {}
        }
    }

    /// The server passes over what follows in this flight, whose own end is still to come.
    fn refuse_the_rest(&mut self, ends: &mut VecDeque<End>) {
        while ends.front() == Some(&End::LeftOut) {
            ends.pop_front();
            self.fit.extend_from_slice(&READY_AFTER_ERROR);
            self.fit.put_u8(b'E');
            self.fit.put_u32(4 + REFUSED.len() as u32);
            self.fit.extend_from_slice(REFUSED);
        }
    }
}

/// Whether an error ends the connection.
fn is_fatal(body: &[u8]) -> bool {
    body.split(|byte| *byte == 0)
        // A pooler in between may speak the older form, without the second of the two.
        .any(|field| matches!(field, b"VFATAL" | b"VPANIC" | b"SFATAL" | b"SPANIC"))
}
