//! Where a job stands (rule P4): how many are before it, what that is called, and about how long it will take.

/// A job's place in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Pending jobs of the lane that were submitted earlier.
    pub ahead: u64,
    /// About how long until it starts, where the lane has a recent pace.
    pub eta_ms: Option<i64>,
}

impl Position {
    /// The place in words.
    pub fn message(&self) -> String {
        match self.ahead {
            0 => "Processing... (next in line)".to_owned(),
            1 => "Processing... (1 document ahead)".to_owned(),
            n => format!("Processing... ({n} documents ahead)"),
        }
    }
}

/// What is counted for a job's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceCounts {
    /// The job's number.
    pub seq: u64,
    /// The number from which on the tail begins.
    pub head: u64,
    /// Held jobs with a smaller number that wait (delayed or put back).
    pub held_before: u64,
    /// Cancelled numbers of the tail before the job.
    pub holes_before: u64,
}

impl PlaceCounts {
    /// Pending jobs that were submitted earlier, without looking at any of them.
    pub const fn ahead(&self) -> u64 {
        self.held_before
            + self
                .seq
                .saturating_sub(self.head)
                .saturating_sub(self.holes_before)
    }
}

/// About how long until a job starts: what runs and what is ahead, at the mean length of the lane's recent runs, over its
/// places.
pub fn estimate_ms(ahead: u64, active: u64, limit: u64, recent_runs_ms: &[i64]) -> Option<i64> {
    let runs = i64::try_from(recent_runs_ms.len())
        .ok()
        .filter(|runs| *runs > 0)?;
    let mean = recent_runs_ms.iter().map(|ms| (*ms).max(0)).sum::<i64>() / runs;
    let before = ahead + active;
    if before < limit {
        return Some(0);
    }
    // What runs is on average half done; the job starts when enough of the rest have ended.
    let rounds_times_two = 2 * (before - active) + active;
    let total = i64::try_from(rounds_times_two)
        .unwrap_or(i64::MAX)
        .saturating_mul(mean);
    Some(total / (2 * i64::try_from(limit.max(1)).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_said_in_words() {
        for (ahead, words) in [
            (0, "Processing... (next in line)"),
            (1, "Processing... (1 document ahead)"),
            (3, "Processing... (3 documents ahead)"),
        ] {
            assert_eq!(Position { ahead, eta_ms: None }.message(), words);
        }
    }

    #[test]
    fn the_place_is_counted_without_walking_the_queue() {
        for (seq, head, held_before, holes_before, ahead) in [
            (10, 10, 0, 0, 0),
            (13, 10, 0, 0, 3),
            (13, 10, 2, 0, 5),
            (13, 10, 2, 1, 4),
            (5, 10, 1, 0, 1),
            (5, 10, 0, 0, 0),
        ] {
            assert_eq!(
                PlaceCounts {
                    seq,
                    head,
                    held_before,
                    holes_before
                }
                .ahead(),
                ahead
            );
        }
    }

    #[test]
    fn the_estimate_follows_the_pace() {
        for (ahead, active, limit, runs, eta) in [
            (0, 0, 1, &[1_000][..], Some(0)),
            (0, 1, 1, &[1_000], Some(500)),
            (3, 1, 1, &[1_000], Some(3_500)),
            (3, 1, 1, &[500, 1_500], Some(3_500)),
            (8, 2, 2, &[1_000], Some(4_500)),
            (0, 1, 2, &[1_000], Some(0)),
            (5, 1, 1, &[], None),
        ] {
            assert_eq!(
                estimate_ms(ahead, active, limit, runs),
                eta,
                "{ahead} ahead, {active} of {limit}"
            );
        }
    }
}
