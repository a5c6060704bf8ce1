//! Credentials that were good a moment ago, so that thousands of calls a second do not ask the database or check a signature
//! each.
//!
//! What is remembered is used for a few seconds, and not at all once a key was revoked on this server. It is kept for longer than
//! it is used: a credential that was good is listened to even when others fail from the same address. Only good credentials are
//! remembered, under the hash of their text, so that nobody can fill the table by guessing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use docket_core::Timestamp;
use docket_core::access::Caller;
use docket_core::content::Digest;

const KNOWN_MAX: usize = 10_000;
/// How long a credential that is not used any more is told from one that never was good.
const KEPT_MS: i64 = 600_000;

struct Entry {
    caller: Caller,
    checked: Timestamp,
    until: Timestamp,
    revoked: u64,
}

#[derive(Default)]
pub(crate) struct Known(Mutex<HashMap<Digest, Entry>>);

/// What is known of a credential.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// It was good not long ago and has to be checked again.
    Before,
    /// It is good.
    Good(Caller),
}

impl Known {
    /// Looks a credential up; `revoked` is the engine's present number of revocations.
    pub(crate) fn find(&self, credential: Digest, revoked: u64, now: Timestamp) -> Found {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get(&credential) {
            Some(entry) if now.since(entry.checked) > KEPT_MS => Found::Nothing,
            // A clock that was set back must not keep anything good for longer.
            Some(entry) if entry.revoked == revoked && now >= entry.checked && now < entry.until => {
                Found::Good(entry.caller.clone())
            }
            Some(_) => Found::Before,
            None => Found::Nothing,
        }
    }

    /// Remembers a credential that was found good at `checked`, until `until`. `revoked` was read before it was checked.
    pub(crate) fn remember(
        &self,
        credential: Digest,
        caller: &Caller,
        revoked: u64,
        (checked, until): (Timestamp, Timestamp),
    ) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= KNOWN_MAX && !entries.contains_key(&credential) {
            make_room(&mut entries, checked);
        }
        let entry = Entry {
            caller: caller.clone(),
            checked,
            until,
            revoked,
        };
        entries.insert(credential, entry);
    }

    /// Forgets a credential that is no longer good.
    pub(crate) fn forget(&self, credential: Digest) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&credential);
    }
}

/// Forgets what is over, and if that is not enough the quarter that was checked longest ago.
fn make_room(entries: &mut HashMap<Digest, Entry>, now: Timestamp) {
    entries.retain(|_, entry| now.since(entry.checked) <= KEPT_MS);
    if entries.len() < KNOWN_MAX {
        return;
    }
    let mut moments: Vec<_> = entries.values().map(|entry| entry.checked).collect();
    let (_, cut, _) = moments.select_nth_unstable(KNOWN_MAX / 4);
    let cut = *cut;
    entries.retain(|_, entry| entry.checked > cut);
}

#[cfg(test)]
mod tests {
    use super::*;
    use docket_core::access::Role;

    const NOW: Timestamp = Timestamp::from_ms(1_000_000_000);

    fn caller() -> Caller {
        Caller::new(Role::Admin, None, "ann").unwrap()
    }

    #[test]
    fn what_was_good_is_used_for_a_while_and_told_from_what_never_was() {
        let (known, key) = (Known::default(), Digest::of(b"key"));
        assert_eq!(known.find(key, 0, NOW), Found::Nothing);
        known.remember(key, &caller(), 0, (NOW, NOW.plus_ms(5_000)));
        for (after_ms, revoked, found) in [
            (0, 0, Found::Good(caller())),
            (4_999, 0, Found::Good(caller())),
            (5_000, 0, Found::Before),
            (1, 1, Found::Before),
            (-1, 0, Found::Before),
            (KEPT_MS + 1, 0, Found::Nothing),
        ] {
            assert_eq!(
                known.find(key, revoked, NOW.plus_ms(after_ms)),
                found,
                "{after_ms}"
            );
        }
        known.forget(key);
        assert_eq!(known.find(key, 0, NOW), Found::Nothing);
    }

    #[test]
    fn the_table_is_bounded_also_when_all_comes_at_once() {
        let known = Known::default();
        for n in 0..25_000_u32 {
            known.remember(
                Digest::of(&n.to_be_bytes()),
                &caller(),
                0,
                (NOW, NOW.plus_ms(5_000)),
            );
            assert!(known.0.lock().unwrap().len() <= KNOWN_MAX);
        }
    }
}
