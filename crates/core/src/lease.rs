//! Leases: an exclusive hold with an owner, a token and an end (rule P5).
//!
//! The token rises with every hold of the same thing and is checked in the statement that acts. A lease that has run out
//! stays its holder's until somebody reaps it: up to then nobody else can have the work, so nothing is lost by letting a
//! slow worker finish.

use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, Refused};

/// The shortest lease.
pub const LEASE_MIN_MS: i64 = 10;
/// The longest lease: a week.
pub const LEASE_MAX_MS: i64 = 7 * 86_400_000;

/// What a holder shows with every word: rises with every hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseToken(pub i64);

/// Checks a lease's length.
pub fn check_lease_ms(path: &str, lease_ms: i64) -> Refused<()> {
    if (LEASE_MIN_MS..=LEASE_MAX_MS).contains(&lease_ms) {
        Ok(())
    } else {
        Err(Refusal::invalid(
            path,
            "must be from 0.01 seconds to a week (604800)",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_have_bounds() {
        for (ms, ok) in [
            (9, false),
            (10, true),
            (LEASE_MAX_MS, true),
            (LEASE_MAX_MS + 1, false),
            (-1, false),
        ] {
            assert_eq!(check_lease_ms("leaseSeconds", ms).is_ok(), ok, "{ms}");
        }
    }
}
