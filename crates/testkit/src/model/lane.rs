//! Lanes by the book: who is served, with what, and what stands before what (rules P1 to P4).

use docket_core::job::JobStatus;

use super::Mutation;
use super::state::{Model, Paused, State};

impl Model {
    /// Whether a pause that is not lifted covers this lane.
    fn lane_paused(&self, lane: usize) -> bool {
        self.pauses
            .iter()
            .filter(|pause| !pause.lifted)
            .any(|pause| match pause.of {
                Paused::All => true,
                Paused::Pipeline(pipeline) => self.lanes[lane].pipeline == pipeline,
                Paused::Lane(paused) => paused == lane,
            })
    }

    fn states_of(&self, lane: usize) -> impl Iterator<Item = State> {
        self.lanes[lane].jobs.iter().map(|job| self.jobs[*job].state)
    }

    /// The job that this lane would start now.
    fn next_of(&self, lane: usize) -> Option<usize> {
        let row = &self.lanes[lane];
        let active = self.states_of(lane).filter(|state| state.leased()).count();
        let full = active >= self.tenants[row.tenant].jobs as usize && !self.mutated(Mutation::NoLimit);
        let strict = self.pipelines[row.pipeline]
            .last()
            .is_some_and(|pipeline| pipeline.strict)
            || self.mutated(Mutation::AlwaysStrict);
        let held_up = strict
            && self
                .states_of(lane)
                .any(|state| matches!(state, State::Delayed { .. }));
        if full || held_up || self.lane_paused(lane) {
            return None;
        }
        let mut ready = row
            .jobs
            .iter()
            .copied()
            .filter(|job| self.jobs[*job].state == State::Ready);
        if self.mutated(Mutation::LastInFirstOut) {
            return ready.next_back();
        }
        ready.next()
    }

    /// Gives out one job of a pipeline: that of the lane which was served longest ago, or never.
    fn claim_one(&mut self, pipeline: usize, worker: Option<u8>, lease_ms: i64) -> Option<usize> {
        let turn_of = |lane: usize| {
            let served = self.lanes[lane]
                .served
                .filter(|_| !self.mutated(Mutation::NoFairness));
            (served, lane)
        };
        let (lane, job) = (0..self.lanes.len())
            .filter(|lane| self.lanes[*lane].pipeline == pipeline)
            .filter_map(|lane| Some((lane, self.next_of(lane)?)))
            .min_by_key(|(lane, _)| turn_of(*lane))?;
        self.turns += 1;
        self.lanes[lane].served = Some(self.turns);
        let by = self.pipelines[pipeline].len() - 1;
        let raises = !self.mutated(Mutation::TokenNeverRises);
        let (until, now) = (self.now.plus_ms(lease_ms), self.now);
        let row = &mut self.jobs[job];
        row.token += i64::from(raises || row.token == 0);
        row.state = State::Leased { until, lease_ms };
        row.by = Some(by);
        row.started_at = Some(now);
        row.worker = worker;
        row.failure_told = false;
        let (item, token) = (row.item, row.token);
        self.items[item].story.push("job.claimed");
        self.grants.push((job, token));
        Some(job)
    }

    /// Gives out up to `limit` jobs, as so many single claims would.
    pub(super) fn claim(
        &mut self,
        pipeline: u8,
        worker: Option<u8>,
        limit: u32,
        lease_ms: Option<i64>,
    ) -> Vec<usize> {
        let pipeline = usize::from(pipeline);
        let own = self.pipelines[pipeline]
            .last()
            .map_or(0, |definition| definition.lease_ms);
        let lease_ms = lease_ms.unwrap_or(own);
        (0..limit)
            .map_while(|_| self.claim_one(pipeline, worker, lease_ms))
            .collect()
    }

    /// How many pending jobs of its lane were submitted before this one; none for a job that does not wait.
    pub(super) fn ahead(&self, job: usize) -> Option<u64> {
        if self.jobs[job].state.status() != JobStatus::Pending {
            return None;
        }
        let counts = |state: State| match state {
            State::Delayed { .. } => !self.mutated(Mutation::WaitingNotAhead),
            other => other.pending(),
        };
        let before = self.lanes[self.jobs[job].lane]
            .jobs
            .iter()
            .take_while(|other| **other != job);
        Some(before.filter(|other| counts(self.jobs[**other].state)).count() as u64)
    }
}
