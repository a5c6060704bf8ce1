//! The words between reviewers and Docket. Those that a reviewer says can be said by a service that has authenticated them; it names
//! them then, and nothing else differs.

use docket_core::id::{ItemId, ReviewId};
use docket_core::lease::LeaseToken;
use docket_core::review::ReviewState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Entry;
use crate::batch::Is;
use crate::collection::{ReviewOutcome, Strategy};
use crate::item::SubmitItem;
use crate::time::Time;
use crate::whole::{whole, whole_or_none};

/// Makes each request twice: as a reviewer says it, and as a service says it for one.
macro_rules! said_by_reviewers {
    ($(
        $(#[$doc:meta])*
        $name:ident, $for_name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)+ }
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            pub struct $name {
                $($(#[$about])* pub $field: $type,)+
            }

            $(#[$doc])*
            ///
            /// Said by a service for a reviewer.
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            pub struct $for_name {
                /// Who reviews.
                #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
                pub reviewer_id: String,
                $($(#[$about])* pub $field: $type,)+
            }

            impl $for_name {
                /// Who says it, and what.
                pub fn split(self) -> (String, $name) {
                    (self.reviewer_id, $name { $($field: self.$field,)+ })
                }
            }
        )+
    };
}

said_by_reviewers! {
    /// Take the most urgent reviews.
    Pop, PopFor {
        /// Of which collection.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
        collection_id: String,
        /// How many at the most.
        #[serde(default = "one", deserialize_with = "whole")]
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 200, default = 1))]
        limit: u32,
        /// In which order; the collection's own where nothing is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        strategy: Option<Strategy>,
        /// Reviews whose holders have given no sign of life for so long are put back first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1_000_000_000))]
        lock_timeout_seconds: Option<f64>,
        /// How long to wait while there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 60))]
        wait_seconds: Option<f64>,
    }

    /// Decide on reviews, each by itself.
    Commit, CommitFor {
        /// 1 to 200 decisions; one that is refused, or that cannot be read, touches no other.
        #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 200))]
        decisions: Vec<Decision>,
    }

    /// Give reviews back.
    Release, ReleaseFor {
        /// 1 to 200 reviews, each named once.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Id>, min_items = 1, max_items = 200))]
        queue_ids: Vec<Uuid>,
        /// Whether they are not to be offered to the same reviewer again.
        #[serde(default)]
        skip: bool,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Reason>))]
        reason: Option<String>,
    }

    /// Name reviews: those that are still looked at, or those whose decisions are taken back.
    Reviews, ReviewsFor {
        /// 1 to 200 reviews, each named once.
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<crate::schema::Id>, min_items = 1, max_items = 200))]
        queue_ids: Vec<Uuid>,
    }
}

const fn one() -> u32 {
    1
}

/// What a reviewer decides about one review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decision {
    /// The review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: Uuid,
    /// The item as its producer knows it; checked where it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::ShortText>))]
    pub generation_id: Option<String>,
    /// The token that the holder was given; any hold of the reviewer's counts where it is left out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lease_token_or_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LeaseToken>))]
    pub lease_token: Option<LeaseToken>,
    /// What is decided; `accepted` is taken for `approved`.
    pub outcome: ReviewOutcome,
    /// Why; a rejection needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Reason>))]
    pub reason: Option<String>,
    /// The right values, where the outcome is `corrected`; then at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1_000))]
    pub corrections: Vec<FieldCorrection>,
}

fn lease_token_or_none<'de, D>(deserializer: D) -> Result<Option<LeaseToken>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Ok(whole_or_none(deserializer)?.map(LeaseToken))
}

/// The right value of a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldCorrection {
    /// The field.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::FieldName))]
    pub field: String,
    /// What is right.
    pub value: Value,
}

/// The answer to a pop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Popped {
    /// The reviews, the most urgent first.
    pub items: Vec<Entry>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty: Option<Empty>,
}

/// Why there is nothing to give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Empty {
    /// In a word.
    pub reason: EmptyReason,
    /// The same for people.
    pub detail: String,
    /// How many of the collection are pending.
    pub pending: u64,
    /// How many are in hands.
    pub in_review: u64,
    /// When the next lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_lease_ends_at: Option<Time>,
}

/// Why there is nothing to give, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EmptyReason {
    /// None left.
    None,
    /// All in other hands.
    AllAssigned,
    /// Paused by an operator.
    Paused,
    /// None that this reviewer may take.
    NotPermitted,
}

/// A review that was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// The review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: ReviewId,
    /// The item that it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub item_id: ItemId,
    /// What the review is now.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ReviewStatus))]
    pub status: ReviewState,
    /// When it was decided.
    pub decided_at: Time,
    /// Until when its reviewer can take it back.
    pub undo_until: Time,
    /// Whether it was decided so before: nothing was changed now.
    pub repeated: bool,
}

/// A review that was given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PutBack {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
}

/// A review that its holder keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// Until when.
    pub lease_expires_at: Time,
}

/// A review whose decision was taken back: it is in the same hands as before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TakenBack {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// The review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: ReviewId,
    /// The token of the new hold.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseToken))]
    pub lease_token: LeaseToken,
    /// Until when it lasts.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub lease_expires_at: Option<Time>,
}

/// `POST /internal/v1/data/review-queue/{queueId}/claim`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimFor {
    /// Who reviews.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub reviewer_id: String,
}

/// `POST /api/v1/review-queue/{queueId}/reassign`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reassign {
    /// Who is to have it.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub to: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Reason>))]
    pub reason: Option<String>,
}

/// `POST /internal/v1/data/review-queue/reap`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReapReviews {
    /// Also reviews whose lease has not run out, but whose holder has given no sign of life for that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1_000_000_000))]
    pub older_than_seconds: Option<f64>,
}

/// What was reaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReapedReviews {
    /// Reviews that went back to the others.
    pub requeued: u64,
    /// Reviews that came back too often, for a lead to look at.
    pub failed: u64,
}

/// `POST /internal/v1/data/review-queue/entries`: items that were finished elsewhere come up for review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entries {
    /// Into which collection.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub collection_id: String,
    /// 1 to 1,000 items; each is taken or refused by itself.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1_000))]
    pub entries: Vec<SubmitItem>,
}

/// An item that is up for review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Entered {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// The item.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub item_id: ItemId,
    /// Its review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: ReviewId,
    /// Whether this call began the review.
    pub created: bool,
}
