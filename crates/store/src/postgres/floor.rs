//! Where claims begin to look for ready lanes.
//!
//! Every claim moves lanes to the end of the ready index and leaves dead entries behind, at its beginning. While some transaction is
//! open for long nothing may remove them, and a claim that began at the beginning would walk past half a million of them to find
//! its first lane. So it begins where the last one found something.
//!
//! **Invariant:** no ready lane lies below the floor, except one that another server made ready a moment ago: its notice finds it, or, should
//! that be lost, the claim that begins at the beginning all the same, a second later at the most. A lane that is ready and in other hands at
//! the moment of a claim is not passed over: whoever has it may leave it as it is. A claim that finds nothing above the floor looks below it
//! before it says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use docket_core::id::PipelineKey;

/// Below every lane.
pub(crate) const BOTTOM: i64 = i64::MIN;
/// After so long a claim begins at the beginning.
const FROM_THE_BOTTOM_EVERY: Duration = Duration::from_secs(1);

/// The floors of the pipelines, as this server knows them.
#[derive(Debug, Default)]
pub(crate) struct Floors(Mutex<HashMap<PipelineKey, Floor>>);

#[derive(Debug)]
struct Floor {
    from: i64,
    looks: u64,
    /// When a claim last began at the beginning.
    bottom_at: Option<Instant>,
    /// The looks that are under way, and the lowest place that one of them may have missed.
    open: Vec<(u64, i64)>,
}

impl Default for Floor {
    fn default() -> Self {
        Self {
            from: BOTTOM,
            looks: 0,
            bottom_at: None,
            open: Vec::new(),
        }
    }
}

impl Floor {
    fn lower(&mut self, to: i64) {
        self.from = self.from.min(to);
        self.may_be_missed(to);
    }

    fn may_be_missed(&mut self, place: i64) {
        for (_, missed) in &mut self.open {
            *missed = (*missed).min(place);
        }
    }

    /// The lowest place that a look may have missed; it is over.
    fn close(&mut self, look: &Look) -> i64 {
        let found = self.open.iter().position(|(number, _)| *number == look.number);
        found.map_or(BOTTOM, |index| self.open.swap_remove(index).1)
    }
}

/// A claim that looks for lanes.
#[derive(Debug)]
pub(crate) struct Look {
    pipeline: PipelineKey,
    number: u64,
    /// Where it begins.
    pub(crate) from: i64,
}

impl Floors {
    /// A claim begins to look, now.
    pub(crate) fn look(&self, pipeline: PipelineKey, now: Instant) -> Look {
        let mut floors = self.lock();
        let floor = floors.entry(pipeline).or_default();
        floor.looks += 1;
        floor.open.push((floor.looks, i64::MAX));
        let recently = |at| now.saturating_duration_since(at) < FROM_THE_BOTTOM_EVERY;
        let from = match floor.bottom_at.is_some_and(recently) {
            true => floor.from,
            false => BOTTOM,
        };
        if from == BOTTOM {
            floor.bottom_at = Some(now);
        }
        Look {
            pipeline,
            number: floor.looks,
            from,
        }
    }

    /// A claim is committed; this was the lowest place at which it saw a ready lane, in other hands or not. What became ready meanwhile,
    /// whoever did it has said.
    pub(crate) fn found(&self, look: &Look, lowest: i64) {
        let mut floors = self.lock();
        let floor = floors.entry(look.pipeline).or_default();
        floor.from = floor.close(look).min(lowest);
        // A lane that changed under its hands is still where it was.
        floor.may_be_missed(lowest);
    }

    /// A claim did not come to its end: the lanes that it had are as they were.
    pub(crate) fn give_up(&self, look: &Look) {
        let mut floors = self.lock();
        let floor = floors.entry(look.pipeline).or_default();
        floor.close(look);
        floor.lower(BOTTOM);
    }

    /// A lane of the pipeline, or of any, may be ready at this place.
    pub(crate) fn lower(&self, pipeline: Option<PipelineKey>, to: i64) {
        let mut floors = self.lock();
        match pipeline {
            Some(pipeline) => floors.entry(pipeline).or_default().lower(to),
            None => floors.values_mut().for_each(|floor| floor.lower(to)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PipelineKey, Floor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a transaction finds out of lanes. It holds once the transaction is committed. Where it never is, or nobody waited for the answer, its
/// claims are given up, and what it may have made ready is looked for all the same.
#[derive(Debug)]
pub(crate) struct LaneNotes {
    floors: Arc<Floors>,
    /// Its claims, and the place of the lowest lane that each found.
    looks: Vec<(Look, i64)>,
    /// Where lanes are ready; of any pipeline where none is named.
    ready: Vec<(Option<PipelineKey>, i64)>,
}

impl LaneNotes {
    pub(super) const fn new(floors: Arc<Floors>) -> Self {
        Self {
            floors,
            looks: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// A claim begins to look, here.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long ago a claim began is real time"
    )]
    pub(crate) fn look(&mut self, pipeline: PipelineKey) -> i64 {
        let look = self.floors.look(pipeline, Instant::now());
        let from = look.from;
        self.looks.push((look, BOTTOM));
        from
    }

    /// The lowest lane that it found.
    pub(crate) fn found(&mut self, lowest: i64) {
        if let Some((_, found)) = self.looks.last_mut() {
            *found = lowest;
        }
    }

    /// A lane is ready.
    pub(crate) fn ready(&mut self, pipeline: Option<PipelineKey>, place: i64) {
        self.ready.push((pipeline, place));
    }

    /// The transaction is committed.
    pub(super) fn hold_true(&mut self) {
        for (look, lowest) in self.looks.drain(..) {
            self.floors.found(&look, lowest);
        }
        for (pipeline, place) in self.ready.drain(..) {
            self.floors.lower(pipeline, place);
        }
    }
}

impl Drop for LaneNotes {
    fn drop(&mut self) {
        for (look, _) in &self.looks {
            self.floors.give_up(look);
        }
        for (pipeline, place) in self.ready.drain(..) {
            self.floors.lower(pipeline, place);
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from")]
mod tests {
    use super::*;

    const P: PipelineKey = PipelineKey(1);

    /// Floors, and a moment that stands still.
    struct Site {
        floors: Floors,
        now: Instant,
    }

    impl Site {
        /// Where somebody has just begun at the beginning.
        fn new() -> Self {
            let site = Self {
                floors: Floors::default(),
                now: Instant::now(),
            };
            assert_eq!(site.from(), BOTTOM);
            site
        }

        fn look(&self) -> Look {
            self.floors.look(P, self.now)
        }

        fn from(&self) -> i64 {
            let look = self.look();
            let mut locked = self.floors.lock();
            locked.get_mut(&P).unwrap().close(&look);
            look.from
        }
    }

    #[test]
    fn a_claim_begins_where_the_last_one_found_something() {
        let site = Site::new();
        let look = site.look();
        assert_eq!(look.from, BOTTOM);
        site.floors.found(&look, 100);
        assert_eq!(site.from(), 100);
        assert_eq!(site.floors.look(PipelineKey(2), site.now).from, BOTTOM);
        let look = site.look();
        site.floors.found(&look, 200);
        assert_eq!(site.from(), 200);
    }

    #[test]
    fn what_becomes_ready_below_it_lowers_it_also_under_the_hands_of_a_claim() {
        let site = Site::new();
        let look = site.look();
        site.floors.found(&look, 100);
        site.floors.lower(Some(P), 50);
        assert_eq!(site.from(), 50);
        let look = site.look();
        site.floors.lower(Some(P), 70);
        site.floors.found(&look, 90);
        assert_eq!(site.from(), 70, "it may have come after the claim looked");
        let look = site.look();
        site.floors.found(&look, 90);
        assert_eq!(site.from(), 90);
        site.floors.lower(None, BOTTOM);
        assert_eq!(site.from(), BOTTOM);
    }

    #[test]
    fn claims_beside_each_other_do_not_raise_it_above_what_the_other_had() {
        let site = Site::new();
        let (first, second) = (site.look(), site.look());
        site.floors.found(&first, 100);
        site.floors.found(&second, 110);
        assert_eq!(site.from(), 100);
        let (first, second) = (site.look(), site.look());
        site.floors.found(&second, 210);
        assert_eq!(site.from(), 210);
        site.floors.give_up(&first);
        assert_eq!(site.from(), BOTTOM);
    }

    #[test]
    fn now_and_then_a_claim_begins_at_the_beginning() {
        let mut site = Site::new();
        site.floors.found(&site.look(), 100);
        site.now += FROM_THE_BOTTOM_EVERY / 2;
        assert_eq!(site.from(), 100);
        site.now += FROM_THE_BOTTOM_EVERY / 2;
        assert_eq!(site.from(), BOTTOM);
        assert_eq!(site.from(), 100);
    }

    #[test]
    fn a_transaction_that_nobody_waited_for_leaves_nothing_unlooked_at() {
        let site = Site::new();
        let floors = Arc::new(site.floors);
        let mut notes = LaneNotes::new(Arc::clone(&floors));
        notes.look(P);
        notes.found(100);
        notes.hold_true();
        assert_eq!(floors.lock()[&P].from, 100);
        notes.ready(Some(P), 50);
        drop(notes);
        assert_eq!(floors.lock()[&P].from, 50);
        let mut notes = LaneNotes::new(Arc::clone(&floors));
        notes.look(P);
        drop(notes);
        assert_eq!(floors.lock()[&P].from, BOTTOM);
        assert_eq!(floors.lock()[&P].open, []);
    }
}
