//! Ids. What the outside sees is a UUID of version 7; inside, the hot tables are keyed by small numbers.
//!
//! An item's or job's id is at the same time its address: the 74 bits that version 7 leaves free hold the
//! key of its collection and a random number, or the key of its lane and its sequence number. Looking one up
//! therefore needs no index besides the table's own key, and an id leads to its tenant. Collection and lane
//! keys are drawn at random, so that ids tell nobody how many others there are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::random::Random;
use crate::refusal::{Refusal, Refused};

const LOW_BITS: u32 = 42;
/// Keys fit a signed 32-bit column.
const KEY_MAX: u64 = i32::MAX as u64;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;

/// The inner key of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionKey(pub u32);

/// The inner key of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey(pub u32);

/// The inner key of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipelineKey(pub i64);

/// A job's place in its lane: rises by one with every submission, in the order of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Draws a new key; never 0, which stands for "none" in the eye of a reader.
pub fn draw_key(random: &dyn Random) -> u32 {
    u32::try_from(random.below(KEY_MAX)).unwrap_or(0) + 1
}

fn compose(at: Timestamp, key: u32, low: u64) -> Uuid {
    let ms = u64::try_from(at.ms()).unwrap_or(0) & 0xFFFF_FFFF_FFFF;
    let key = u64::from(key);
    let high = (ms << 16) | 0x7000 | (key >> 20);
    let low = (0b10 << 62) | ((key & 0xF_FFFF) << LOW_BITS) | (low & LOW_MASK);
    Uuid::from_u64_pair(high, low)
}

/// Whether it can be the key of anything: what is not is nobody's id, and is not asked of a database whose columns could not hold it.
fn is_key(key: u32) -> bool {
    key != 0 && u64::from(key) <= KEY_MAX
}

fn key_of(id: Uuid) -> u32 {
    let (high, low) = id.as_u64_pair();
    let key = ((high & 0xFFF) << 20) | ((low >> LOW_BITS) & 0xF_FFFF);
    u32::try_from(key).unwrap_or(u32::MAX)
}

fn low_of(id: Uuid) -> u64 {
    id.as_u64_pair().1 & LOW_MASK
}

fn created_of(id: Uuid) -> Timestamp {
    Timestamp::from_ms(i64::try_from(id.as_u64_pair().0 >> 16).unwrap_or(0))
}

fn parse(what: &'static str, text: &str) -> Refused<Uuid> {
    Uuid::try_parse(text)
        .ok()
        .filter(|id| id.get_version_num() == 7 && is_key(key_of(*id)))
        .ok_or_else(|| Refusal::not_found(what, &text.chars().take(64).collect::<String>()))
}

macro_rules! outside_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Uuid);

        impl TryFrom<String> for $name {
            type Error = Refusal;

            fn try_from(text: String) -> Refused<Self> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl $name {
            /// The id as it is stored.
            pub const fn uuid(self) -> Uuid {
                self.0
            }

            /// An id read back from storage.
            pub const fn from_uuid(id: Uuid) -> Self {
                Self(id)
            }

            /// When it was made.
            pub fn created_at(self) -> Timestamp {
                created_of(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Refusal;

            fn from_str(text: &str) -> Refused<Self> {
                parse($what, text).map(Self)
            }
        }
    };
}

outside_id!(
    /// An item. Leads to its collection.
    ItemId,
    "item"
);
outside_id!(
    /// A job. It is the job's address: lane and sequence number.
    JobId,
    "job"
);
outside_id!(
    /// A review. Leads to its collection.
    ReviewId,
    "review"
);
outside_id!(
    /// A file on its way in.
    UploadId,
    "upload"
);
outside_id!(
    /// A pause set by an operator.
    PauseId,
    "pause"
);
outside_id!(
    /// An API key; not the secret.
    KeyId,
    "key"
);
outside_id!(
    /// A notification.
    NotificationId,
    "notification"
);
outside_id!(
    /// A delivery.
    DeliveryId,
    "delivery"
);

impl ItemId {
    /// A new item of a collection.
    pub fn new(at: Timestamp, collection: CollectionKey, random: &dyn Random) -> Self {
        Self(compose(at, collection.0, random.next_u64()))
    }

    /// An id after all others, to begin a list with.
    pub const fn last() -> Self {
        Self(Uuid::max())
    }

    /// An id after those of all items submitted up to this moment.
    pub fn first_after(at: Timestamp) -> Self {
        Self(compose(at.plus_ms(1), 0, 0))
    }

    /// The collection that the item belongs to.
    pub fn collection(self) -> CollectionKey {
        CollectionKey(key_of(self.0))
    }
}

impl JobId {
    /// The id of the job at this place.
    pub fn new(created_at: Timestamp, lane: LaneKey, seq: Seq) -> Self {
        Self(compose(created_at, lane.0, seq.0))
    }

    /// The lane that the job stands in.
    pub fn lane(self) -> LaneKey {
        LaneKey(key_of(self.0))
    }

    /// Its place there.
    pub fn seq(self) -> Seq {
        Seq(low_of(self.0))
    }
}

impl ReviewId {
    /// A new review in a collection.
    pub fn new(at: Timestamp, collection: CollectionKey, random: &dyn Random) -> Self {
        Self(compose(at, collection.0, random.next_u64()))
    }

    /// An id before all others, to begin a walk with.
    pub const fn first() -> Self {
        Self(Uuid::nil())
    }

    /// The collection that the review belongs to.
    pub fn collection(self) -> CollectionKey {
        CollectionKey(key_of(self.0))
    }
}

impl UploadId {
    /// A new upload.
    pub fn new(at: Timestamp, random: &dyn Random) -> Self {
        Self(compose(at, draw_key(random), random.next_u64()))
    }
}

impl PauseId {
    /// A new pause.
    pub fn new(at: Timestamp, random: &dyn Random) -> Self {
        Self(compose(at, draw_key(random), random.next_u64()))
    }
}

impl KeyId {
    /// A new key.
    pub fn new(at: Timestamp, random: &dyn Random) -> Self {
        Self(compose(at, draw_key(random), random.next_u64()))
    }

    /// An id after all others, to begin a list with.
    pub const fn last() -> Self {
        Self(Uuid::max())
    }
}

/// The low bits of a delivery's id that hold its place among those of its notification.
const PLACE_BITS: u32 = 10;

impl NotificationId {
    /// A new notification.
    pub fn new(at: Timestamp, random: &dyn Random) -> Self {
        Self(compose(at, draw_key(random), random.next_u64()))
    }

    /// An id after all others, to begin a list with.
    pub const fn last() -> Self {
        Self(Uuid::max())
    }

    /// The id of the delivery at this place: a notification's deliveries are ordered as its recipients were named.
    pub fn delivery(self, place: usize) -> DeliveryId {
        let low = (low_of(self.0) << PLACE_BITS) | (place as u64 & ((1 << PLACE_BITS) - 1));
        DeliveryId(compose(created_of(self.0), key_of(self.0), low))
    }
}

impl DeliveryId {
    /// An id after all others, to begin a list with.
    pub const fn last() -> Self {
        Self(Uuid::max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn the_ids_of_a_notifications_deliveries_follow_the_order_of_its_recipients() {
        let id = NotificationId::new(Timestamp::from_ms(1_000), &SeededRandom::new(5));
        let ids: Vec<_> = (0..1_000).map(|place| id.delivery(place)).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(ids[7].to_string().parse(), Ok(ids[7]));
    }

    #[test]
    fn a_job_id_is_the_jobs_address() {
        for (lane, seq) in [(1, 0), (i32::MAX as u32, LOW_MASK), (0x2BCD_EF01, 123_456_789)] {
            let at = Timestamp::from_ms(1_790_000_000_123);
            let id = JobId::new(at, LaneKey(lane), Seq(seq));
            assert_eq!((id.lane().0, id.seq().0, id.created_at()), (lane, seq, at));
            assert_eq!(id.uuid().get_version_num(), 7);
            assert_eq!(id.uuid().get_variant(), uuid::Variant::RFC4122);
            assert_eq!(id.to_string().parse::<JobId>(), Ok(id));
        }
    }

    #[test]
    fn an_item_id_leads_to_its_collection_and_sorts_by_time() {
        let random = SeededRandom::new(3);
        let early = ItemId::new(Timestamp::from_ms(1000), CollectionKey(9), &random);
        let late = ItemId::new(Timestamp::from_ms(1001), CollectionKey(9), &random);
        assert_eq!(early.collection(), CollectionKey(9));
        assert!(early < late);
    }

    #[test]
    fn what_is_no_id_is_not_found() {
        for text in [
            "",
            "42",
            "not-a-uuid",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            &"9".repeat(10_000),
        ] {
            assert_eq!(text.parse::<ItemId>().unwrap_err().code(), "not_found", "{text}");
        }
    }

    #[test]
    fn an_id_whose_key_cannot_be_is_not_found() {
        for key in [0, i32::MAX as u32 + 1, u32::MAX] {
            let id = JobId::new(Timestamp::from_ms(1), LaneKey(key), Seq(1)).to_string();
            assert_eq!(id.parse::<JobId>().unwrap_err().code(), "not_found");
            assert!(serde_json::from_value::<JobId>(serde_json::Value::String(id)).is_err());
        }
    }

    #[test]
    fn keys_are_never_zero() {
        let random = SeededRandom::new(1);
        assert!((0..10_000).all(|_| draw_key(&random) != 0));
    }
}
