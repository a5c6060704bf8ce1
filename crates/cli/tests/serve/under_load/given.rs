//! What can be told from outside about the order in which jobs were given out.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use docket_core::id::JobId;
use docket_core::lease::LeaseToken;

/// A claim that was answered with jobs.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) asked: Instant,
    pub(crate) told: Instant,
    /// The tenant, the job, and the token of its lease.
    pub(crate) jobs: Vec<(usize, JobId, LeaseToken)>,
}

/// No job was given out twice; how many were given out.
pub(crate) fn once_each(calls: &[Call]) -> usize {
    let mut seen = HashSet::new();
    for (_, job, _) in calls.iter().flat_map(|call| &call.jobs) {
        assert!(seen.insert(*job), "{job} was given out twice");
    }
    seen.len()
}

/// Within a lane jobs start in the order in which they were submitted (P1): nobody who asked after a later job had been
/// given out was given an earlier one, and in one answer they stand in order.
pub(crate) fn in_order(calls: &[Call]) {
    let mut lanes: BTreeMap<u32, BTreeMap<u64, &Call>> = BTreeMap::new();
    for call in calls {
        let mut last = BTreeMap::new();
        for (_, job, _) in &call.jobs {
            let (lane, seq) = (job.lane().0, job.seq().0);
            lanes.entry(lane).or_default().insert(seq, call);
            let before = last.insert(lane, seq);
            assert!(
                before.is_none_or(|before| before < seq),
                "{job} stands out of order"
            );
        }
    }
    for (lane, jobs) in lanes {
        let mut told: Option<(Instant, u64)> = None;
        for (seq, call) in jobs.iter().rev() {
            if let Some((told, later)) = told {
                assert!(
                    call.asked <= told,
                    "lane {lane}: job {later} was started before job {seq}"
                );
            }
            told = Some(told.map_or((call.told, *seq), |told| told.min((call.told, *seq))));
        }
    }
}

/// How many claims were asked and answered between each submission of a tenant's single jobs and its start (P3). The jobs were
/// submitted one after the other; one may be started before its producer is told.
pub(crate) fn overtaken(calls: &[Call], tenant: usize, submitted: &[Instant]) -> Vec<usize> {
    let mine = |call: &Call| {
        let jobs = call.jobs.iter().filter(|(of, _, _)| *of == tenant);
        let told = call.told;
        jobs.map(|(_, job, _)| (job.seq().0, told)).collect::<Vec<_>>()
    };
    let started: BTreeMap<u64, Instant> = calls.iter().flat_map(mine).collect();
    assert_eq!(started.len(), submitted.len(), "each was started");
    let count = |(submitted, started): (&Instant, &Instant)| {
        let between = |call: &&Call| call.asked > *submitted && call.told < *started;
        calls.iter().filter(between).count()
    };
    submitted.iter().zip(started.values()).map(count).collect()
}
