//! Room in memory: what all requests together may hold while they are read, parsed and carried out.
//!
//! A body takes its room before it is read, and its values take theirs before they are made of it, each by its size. Who finds none
//! waits for a while and is then told to come back. Small requests need none: those of workers and reviewers never stand behind large
//! ones.
//!
//! **Invariant:** who has room for values waits for no more room, and who has room for a body waits for room for values at the most; so
//! nobody waits in a circle. What one request needs is never more than there is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{ApiError, ApiResult};
use crate::state::ServerConfig;

/// Room is counted in so many bytes.
const UNIT: usize = 1_024;
/// A body up to this size needs no room.
pub(crate) const SMALL_BODY: usize = 64 << 10;
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

    /// Room for a body of this size.
    pub(crate) async fn for_body(&self, bytes: usize) -> ApiResult<Held> {
        match bytes <= SMALL_BODY {
            true => Ok(Held::default()),
            false => self.bodies.take(bytes, self.timeout).await,
        }
    }

    /// Room for values that take so much.
    pub(crate) async fn for_values(&self, bytes: usize) -> ApiResult<Held> {
        match bytes <= SMALL_VALUES {
            true => Ok(Held::default()),
            false => self.values.take(bytes, self.timeout).await,
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

    async fn take(&self, bytes: usize, timeout: Duration) -> ApiResult<Held> {
        let wanted = Arc::clone(&self.units).acquire_many_owned(units(bytes).min(self.all));
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
    /// Gives back what is more than this needs.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let Some(permit) = &mut self.0 else { return };
        let needed = match bytes <= SMALL_BODY {
            true => 0,
            false => units(bytes) as usize,
        };
        drop(permit.split(permit.num_permits().saturating_sub(needed)));
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

    #[tokio::test]
    async fn room_is_given_back_and_small_bodies_need_none() {
        let room = room(1 << 20);
        let held = room.for_body(900 << 10).await.unwrap();
        assert!(matches!(room.for_body(200 << 10).await, Err(ApiError::Full)));
        room.for_body(SMALL_BODY).await.unwrap();
        drop(held);
        room.for_body(200 << 10).await.unwrap();
    }

    #[tokio::test]
    async fn values_have_a_room_of_their_own() {
        let room = room(1 << 20);
        let held = room.for_values(400 << 20).await.unwrap();
        assert!(matches!(room.for_values(200 << 20).await, Err(ApiError::Full)));
        room.for_values(SMALL_VALUES).await.unwrap();
        room.for_body(1 << 20).await.unwrap();
        drop(held);
        room.for_values(200 << 20).await.unwrap();
    }

    #[tokio::test]
    async fn what_needs_more_than_there_is_takes_all_and_gives_the_rest_back() {
        let room = room(1 << 20);
        let mut held = room.for_body(5 << 20).await.unwrap();
        assert!(room.for_body(100 << 10).await.is_err());
        held.shrink_to(100 << 10);
        let other = room.for_body(924 << 10).await.unwrap();
        assert!(room.for_body(100 << 10).await.is_err());
        held.shrink_to(10);
        room.for_body(100 << 10).await.unwrap();
        drop(other);
    }
}
