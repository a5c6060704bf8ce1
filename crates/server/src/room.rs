//! Room in memory: what all requests together may hold while they are read, parsed and carried out.
//!
//! A body takes its room as it arrives, and its values take theirs before they are made of it, each by its size. Who finds none
//! waits for a while and is then told to come back. Small requests need none: those of workers and reviewers never stand behind large
//! ones.
//!
//! **Invariant:** who has room for values waits for no more room. Bodies that have arrived in part may wait for each other: the first whose
//! patience ends is told to come back, and the others have its room. What one request needs is never more than there is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, ApiResult};
use crate::state::ServerConfig;

/// Room is counted in so many bytes.
const UNIT: usize = 1_024;
/// A body up to this size needs no room.
const SMALL_BODY: usize = 64 << 10;
/// A larger one takes room for so much at a time.
const STEP: usize = 256 << 10;
/// Values that take no more than this need none.
const SMALL_VALUES: usize = 1 << 20;

/// The room of a server.
#[derive(Debug)]
pub(crate) struct Room {
    bodies: Place,
    values: Place,
    timeout: Duration,
}

impl Room {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self {
            bodies: Place::new(config.bodies_held_max),
            values: Place::new(config.values_held_max),
            timeout: config.room_timeout,
        }
    }

    /// Room for a body that has so many bytes by now, beside what it has.
    pub(crate) async fn for_more(&self, held: &mut Held, bytes: usize) -> ApiResult<()> {
        let has = held.units() as usize * UNIT;
        if bytes <= SMALL_BODY || bytes <= has {
            return Ok(());
        }
        let more = bytes.next_multiple_of(STEP) - has;
        held.add(self.bodies.take(more, has, self.timeout).await?);
        Ok(())
    }

    /// Room for values that take so much.
    pub(crate) async fn for_values(&self, bytes: usize) -> ApiResult<Held> {
        match bytes <= SMALL_VALUES {
            true => Ok(Held::default()),
            false => self.values.take(bytes, 0, self.timeout).await,
        }
    }
}

#[derive(Debug)]
struct Place {
    units: Arc<Semaphore>,
    all: u32,
}

impl Place {
    fn new(bytes: usize) -> Self {
        let all = units(bytes).max(1);
        Self {
            units: Arc::new(Semaphore::new(all as usize)),
            all,
        }
    }

    /// So much, for somebody who has some; never more than all together.
    async fn take(&self, bytes: usize, has: usize, timeout: Duration) -> ApiResult<Held> {
        let left = self.all.saturating_sub(units(has));
        let wanted = Arc::clone(&self.units).acquire_many_owned(units(bytes).min(left));
        match tokio::time::timeout(timeout, wanted).await {
            Ok(Ok(permit)) => Ok(Held(Some(permit))),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(ApiError::Full),
        }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// Room that is given back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held(Option<OwnedSemaphorePermit>);

impl Held {
    fn units(&self) -> u32 {
        let permits = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(permits).unwrap_or(u32::MAX)
    }

    fn add(&mut self, more: Self) {
        match (&mut self.0, more.0) {
            (Some(permit), Some(more)) => permit.merge(more),
            (own, more) => *own = more,
        }
    }
}

/// What a request holds until it is answered. A route that waits has none: there room is given back as soon as the body is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holding(Arc<Mutex<Vec<Held>>>);

impl Holding {
    pub(crate) fn keep(&self, held: impl IntoIterator<Item = Held>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(bodies: usize) -> Room {
        Room::new(&ServerConfig {
            bodies_held_max: bodies,
            room_timeout: Duration::from_millis(20),
            ..ServerConfig::default()
        })
    }

    async fn body(room: &Room, bytes: usize) -> ApiResult<Held> {
        let mut held = Held::default();
        room.for_more(&mut held, bytes).await?;
        Ok(held)
    }

    #[tokio::test]
    async fn room_is_given_back_and_small_bodies_need_none() {
        let room = room(1 << 20);
        let held = body(&room, 900 << 10).await.unwrap();
        assert!(matches!(body(&room, 200 << 10).await, Err(ApiError::Full)));
        body(&room, SMALL_BODY).await.unwrap();
        drop(held);
        body(&room, 200 << 10).await.unwrap();
    }

    #[tokio::test]
    async fn values_have_a_room_of_their_own() {
        let room = room(1 << 20);
        let held = room.for_values(400 << 20).await.unwrap();
        assert!(matches!(room.for_values(200 << 20).await, Err(ApiError::Full)));
        room.for_values(SMALL_VALUES).await.unwrap();
        body(&room, 1 << 20).await.unwrap();
        drop(held);
        room.for_values(200 << 20).await.unwrap();
    }

    #[tokio::test]
    async fn a_body_takes_room_as_it_arrives_and_never_more_than_there_is() {
        let room = room(1 << 20);
        let mut held = Held::default();
        for (arrived, has) in [
            (60, 0),
            (65, 256),
            (256, 256),
            (257, 512),
            (900, 1_024),
            (5_000, 1_024),
        ] {
            room.for_more(&mut held, arrived << 10).await.unwrap();
            assert_eq!(held.units(), has, "of {arrived} KiB");
        }
        assert!(body(&room, 100 << 10).await.is_err());
        drop(held);
        let (mut one, mut other) = (
            body(&room, 500 << 10).await.unwrap(),
            body(&room, 400 << 10).await.unwrap(),
        );
        assert!(room.for_more(&mut one, 600 << 10).await.is_err());
        drop(one);
        room.for_more(&mut other, 1 << 20).await.unwrap();
    }
}
