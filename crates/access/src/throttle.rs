//! Slows down addresses from which too many attempts failed.
//!
//! The first few failures of an address cost nothing: people mistype. From then on each doubles the time in which further
//! attempts from there are not even looked at, up to [`SLOWED_MAX_MS`]; failures are forgotten one by one. An IPv6 address counts
//! as its /64, which is what one customer of a provider has. The table is bounded: when it is full, the addresses that were quiet
//! longest are forgotten, so filling it gains an attacker nothing but a fresh start that new addresses would give as well.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use docket_core::Timestamp;

/// Failures of one address that have no consequence.
const FREE: i64 = 10;
/// How long one failure is remembered.
const FORGET_MS: i64 = 20_000;
/// Failures remembered of one address at most, so that a flood is forgotten within minutes.
const FAILURES_MAX: i64 = FREE + 8;
/// The longest time in which an address is not listened to.
pub(crate) const SLOWED_MAX_MS: i64 = 30_000;
const ADDRESSES_MAX: usize = 10_000;

#[derive(Clone, Copy)]
struct Record {
    failures: i64,
    last: Timestamp,
    until: Timestamp,
}

impl Record {
    fn failures_at(&self, now: Timestamp) -> i64 {
        (self.failures - now.since(self.last).max(0) / FORGET_MS).max(0)
    }
}

#[derive(Default)]
pub(crate) struct Throttle(Mutex<HashMap<IpAddr, Record>>);

impl Throttle {
    /// Seconds until this address is listened to again; none where it is.
    pub(crate) fn slowed_s(&self, from: IpAddr, now: Timestamp) -> Option<u64> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let record = records.get(&group(from))?;
        // A clock that was set back must not slow anybody for longer than the rule says.
        let left_ms = record.until.since(now).min(SLOWED_MAX_MS);
        (left_ms > 0).then(|| u64::try_from(left_ms.saturating_add(999) / 1000).unwrap_or(1))
    }

    /// An attempt from this address failed.
    pub(crate) fn failed(&self, from: IpAddr, now: Timestamp) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = group(from);
        if records.len() >= ADDRESSES_MAX && !records.contains_key(&from) {
            make_room(&mut records, now);
        }
        let failures = records.get(&from).map_or(0, |record| record.failures_at(now)) + 1;
        let failures = failures.min(FAILURES_MAX);
        let slow_ms = match u32::try_from(failures - FREE) {
            Ok(over) if over > 0 => (500_i64 << over.min(16)).min(SLOWED_MAX_MS),
            _ => 0,
        };
        let until = now.plus_ms(slow_ms);
        records.insert(
            from,
            Record {
                failures,
                last: now,
                until,
            },
        );
    }
}

/// Forgets what is over, and if that is not enough the quarter that was quiet longest.
fn make_room(records: &mut HashMap<IpAddr, Record>, now: Timestamp) {
    records.retain(|_, record| record.failures_at(now) > 0);
    if records.len() < ADDRESSES_MAX {
        return;
    }
    let mut moments: Vec<_> = records.values().map(|record| record.last).collect();
    let (_, cut, _) = moments.select_nth_unstable(ADDRESSES_MAX / 4);
    let cut = *cut;
    records.retain(|_, record| record.last > cut);
}

fn group(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << 64)).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_000_000_000);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_failures_are_free_and_the_next_cost_more_and_more() {
        let (throttle, from) = (Throttle::default(), address("192.0.2.1"));
        let mut slowed = Vec::new();
        for _ in 0..20 {
            throttle.failed(from, NOW);
            slowed.push(throttle.slowed_s(from, NOW).unwrap_or(0));
        }
        assert_eq!(slowed[..10], [0; 10]);
        assert_eq!(slowed[10..16], [1, 2, 4, 8, 16, 30]);
        assert_eq!(slowed[19], 30, "no longer than the rule says");
        assert_eq!(
            throttle.slowed_s(address("192.0.2.2"), NOW),
            None,
            "others are not concerned"
        );
    }

    #[test]
    fn failures_are_forgotten() {
        let (throttle, from) = (Throttle::default(), address("192.0.2.1"));
        for _ in 0..1_000 {
            throttle.failed(from, NOW);
        }
        let later = NOW.plus_ms(SLOWED_MAX_MS);
        assert_eq!(throttle.slowed_s(from, later), None, "it is listened to again");
        throttle.failed(from, later);
        assert!(
            throttle.slowed_s(from, later).is_some(),
            "but not as if nothing had been"
        );
        let much_later = later.plus_ms(FORGET_MS * FAILURES_MAX);
        throttle.failed(from, much_later);
        assert_eq!(throttle.slowed_s(from, much_later), None, "all is forgotten");
    }

    #[test]
    fn a_clock_set_back_slows_nobody_for_longer() {
        let (throttle, from) = (Throttle::default(), address("192.0.2.1"));
        for _ in 0..30 {
            throttle.failed(from, NOW);
        }
        assert_eq!(throttle.slowed_s(from, NOW.plus_ms(-3_600_000)), Some(30));
    }

    #[test]
    fn an_ipv6_address_counts_as_its_network_and_a_mapped_one_as_ipv4() {
        for (text, same) in [
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(group(address(text)), group(address(same)), "{text}");
        }
        assert_ne!(
            group(address("2001:db8:1:2::1")),
            group(address("2001:db8:1:3::1"))
        );
    }

    #[test]
    fn the_table_cannot_be_filled() {
        let throttle = Throttle::default();
        let guesser = address("192.0.2.1");
        for n in 0..50_000_u32 {
            let now = NOW.plus_ms(i64::from(n));
            throttle.failed(IpAddr::from((0x0a00_0000 + n).to_be_bytes()), now);
            if n % 100 == 0 {
                throttle.failed(guesser, now);
            }
            assert!(throttle.0.lock().unwrap().len() <= ADDRESSES_MAX);
        }
        assert!(
            throttle.slowed_s(guesser, NOW.plus_ms(50_000)).is_some(),
            "who goes on guessing is not pushed out by others"
        );
    }
}
