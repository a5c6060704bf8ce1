//! Lanes: one tenant's line within one pipeline.
//!
//! A lane's row counts what stands in it. Jobs that were never started form the tail, in order of their numbers from
//! `head` on; a job that was started has a *hold*: leased to a worker, delayed until its next attempt, or put back to the
//! front. So what runs is exactly what has a leased hold, and no crash can leak a place.

/// How a job that has left the tail is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldKind {
    /// A worker has it.
    Leased,
    /// It waits for its next attempt.
    Delayed,
    /// It was put back and goes before the tail.
    Front,
}

impl HoldKind {
    /// The number it is stored as.
    pub const fn code(self) -> i64 {
        match self {
            Self::Leased => 1,
            Self::Delayed => 2,
            Self::Front => 3,
        }
    }

    /// The hold of this number.
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            1 => Some(Self::Leased),
            2 => Some(Self::Delayed),
            3 => Some(Self::Front),
            _ => None,
        }
    }
}

/// A lane's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// How many jobs may run at once.
    pub limit: u64,
    /// Jobs that run.
    pub active: u64,
    /// Jobs that could be started: the tail and those put back.
    pub queued: u64,
    /// Jobs that wait for their next attempt.
    pub waiting: u64,
}

impl LaneCounts {
    /// Whether a worker can be given a job of this lane. The databases hold the same rule in a generated column, which
    /// the conformance suite compares with this one.
    pub const fn ready(&self, paused: bool, strict: bool) -> bool {
        self.queued > 0 && self.active < self.limit && !paused && !(strict && self.waiting > 0)
    }
}

/// How many jobs each lane gives at the most when `wanted` are dealt out one a lane in each round: the smallest number with which
/// lanes that can give as many as `supplies` says give `wanted` between them, or all they have.
pub fn rounds_for(wanted: u64, supplies: &[u64]) -> u64 {
    let mut sorted = supplies.to_vec();
    sorted.sort_unstable();
    let mut given = 0;
    for (index, supply) in sorted.iter().enumerate() {
        let lanes = (sorted.len() - index) as u64;
        if given + supply * lanes >= wanted {
            return (wanted - given).div_ceil(lanes);
        }
        given += supply;
    }
    sorted.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_ready_when_something_may_start() {
        let counts = |active, queued, waiting| LaneCounts {
            limit: 2,
            active,
            queued,
            waiting,
        };
        for (counts, paused, strict, ready) in [
            (counts(0, 0, 0), false, false, false),
            (counts(0, 1, 0), false, false, true),
            (counts(1, 1, 0), false, false, true),
            (counts(2, 1, 0), false, false, false),
            (counts(3, 1, 0), false, false, false),
            (counts(0, 1, 0), true, false, false),
            (counts(0, 1, 1), false, false, true),
            (counts(0, 1, 1), false, true, false),
            (counts(0, 1, 0), false, true, true),
        ] {
            assert_eq!(
                counts.ready(paused, strict),
                ready,
                "{counts:?} paused {paused} strict {strict}"
            );
        }
    }

    #[test]
    fn no_more_rounds_are_dealt_than_are_wanted() {
        for (wanted, supplies, rounds) in [
            (10, &[][..], 0),
            (10, &[5], 5),
            (3, &[5], 3),
            (4, &[5, 5], 2),
            (5, &[5, 5], 3),
            (7, &[1, 5, 5], 3),
            (11, &[1, 5, 5], 5),
            (50, &[1, 5, 5], 5),
            (1000, &[1000; 300], 4),
            (2, &[1, 1, 1, 1], 1),
            (0, &[1, 1], 0),
        ] {
            assert_eq!(rounds_for(wanted, supplies), rounds, "{wanted} of {supplies:?}");
        }
    }

    #[test]
    fn kinds_of_hold_keep_their_numbers() {
        for kind in [HoldKind::Leased, HoldKind::Delayed, HoldKind::Front] {
            assert_eq!(HoldKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(HoldKind::from_code(0), None);
    }
}
