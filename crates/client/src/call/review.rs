//! Reviews: what reviewers say, what a service says for them, and what leads see and change.
//!
//! A decision says the same when it is said twice, and so does a sign of life. Taking reviews is never repeated by itself: what a
//! lost answer has given is with nobody until its lease ends.

use docket_core::id::ReviewId;
use docket_wire::Page;
use docket_wire::item::SubmitItem;
use docket_wire::review::{
    ClaimFor, Commit, CommitFor, Decided, Decision, Entered, Entries, Entry, Explanation, Kept, Pop, PopFor,
    Popped, PutBack, ReapReviews, ReapedReviews, Reassign, Release, ReleaseFor, Reviews, ReviewsFor,
    ReviewsQuery, Stats, TakenBack, Workload,
};
use docket_wire::reviewer::HandedOn;
use serde::Serialize;
use serde_json::json;

use super::{Answers, waiting};
use crate::client::{Call, Client};
use crate::error::Result;

const QUEUE: [&str; 3] = ["api", "v1", "review-queue"];
const SERVICE: [&str; 4] = ["internal", "v1", "data", "review-queue"];

fn named(reviews: &[ReviewId]) -> Reviews {
    Reviews {
        queue_ids: reviews.iter().map(|review| review.uuid()).collect(),
    }
}

impl Client {
    fn queue_get(&self, more: &[&str]) -> Call {
        self.get(&[&QUEUE, more].concat())
    }

    fn queue_post(&self, more: &[&str], body: &impl Serialize) -> Result<Call> {
        self.post(&[&QUEUE, more].concat(), body)
    }

    fn service_post(&self, more: &[&str], body: &impl Serialize) -> Result<Call> {
        self.post(&[&SERVICE, more].concat(), body)
    }

    /// Takes the most urgent reviews.
    pub async fn review_pop(&self, pop: &Pop) -> Result<Popped> {
        let mut call = self.queue_post(&["pop"], pop)?;
        call.timeout = Some(waiting(pop.wait_seconds));
        self.ask(call).await
    }

    /// Decides on reviews. Said twice, it is answered the same.
    pub async fn review_commit(&self, decisions: Vec<Decision>) -> Result<Answers<Decided>> {
        let call = self.queue_post(&["commit"], &Commit { decisions })?;
        self.ask_each(call.repeatable()).await
    }

    /// Gives reviews back.
    pub async fn review_release(&self, release: &Release) -> Result<Answers<PutBack>> {
        self.ask_each(self.queue_post(&["release"], release)?).await
    }

    /// Keeps reviews that are still looked at.
    pub async fn review_heartbeat(&self, reviews: &[ReviewId]) -> Result<Answers<Kept>> {
        let call = self.queue_post(&["heartbeat"], &named(reviews))?;
        self.ask_each(call.repeatable()).await
    }

    /// Takes the own decisions back.
    pub async fn review_undo(&self, reviews: &[ReviewId]) -> Result<Answers<TakenBack>> {
        self.ask_each(self.queue_post(&["undo"], &named(reviews))?).await
    }

    /// Takes a certain review; the own one is renewed, so that it can be said twice.
    pub async fn review_claim(&self, queue_id: &str) -> Result<Entry> {
        let call = self.queue_post(&[queue_id, "claim"], &json!({}))?;
        self.ask(call.repeatable()).await
    }

    /// Puts a review into somebody's hands.
    pub async fn review_reassign(&self, queue_id: &str, reassign: &Reassign) -> Result<Entry> {
        self.ask(self.queue_post(&[queue_id, "reassign"], reassign)?)
            .await
    }

    /// Hands on everything that a reviewer holds who is not there.
    pub async fn review_hand_on(&self, reviewer_id: &str) -> Result<HandedOn> {
        self.ask(self.post(&["api", "v1", "reviewers", reviewer_id, "hand-on"], &json!({}))?)
            .await
    }

    /// Lets machines change a corrected field again.
    pub async fn field_unlock(&self, item_id: &str, field: &str) -> Result<()> {
        let segments = ["api", "v1", "items", item_id, "fields", field, "unlock"];
        self.tell(self.post(&segments, &json!({}))?.repeatable()).await
    }

    /// A page of reviews.
    pub async fn reviews(&self, query: &ReviewsQuery) -> Result<Page<Entry>> {
        let word = |value: Option<serde_json::Value>| value.and_then(|word| word.as_str().map(str::to_owned));
        let call = self
            .queue_get(&[])
            .query("collectionId", query.collection_id.as_deref())
            .query("status", word(query.status.map(|status| json!(status))))
            .query("assignedTo", query.assigned_to.as_deref())
            .query("band", word(query.band.map(|band| json!(band))))
            .query("overdue", query.overdue)
            .query("sort", word(query.sort.map(|sort| json!(sort))))
            .query("limit", query.limit)
            .query("cursor", query.cursor.as_deref());
        self.ask(call).await
    }

    /// A review.
    pub async fn review(&self, queue_id: &str) -> Result<Entry> {
        self.ask(self.queue_get(&[queue_id])).await
    }

    /// Why a review stands where it stands.
    pub async fn review_explain(&self, queue_id: &str) -> Result<Explanation> {
        self.ask(self.queue_get(&[queue_id, "explain"])).await
    }

    /// How a collection's queue stands.
    pub async fn review_stats(&self, collection_id: &str) -> Result<Stats> {
        let call = self.queue_get(&["stats"]);
        self.ask(call.query("collectionId", Some(collection_id))).await
    }

    /// Who does how much in a collection.
    pub async fn review_workload(&self, collection_id: &str) -> Result<Workload> {
        let call = self.queue_get(&["reviewer-workload"]);
        self.ask(call.query("collectionId", Some(collection_id))).await
    }

    /// How the queues of all collections stand, by page.
    pub async fn review_stats_all(&self, limit: Option<u64>, cursor: Option<&str>) -> Result<Page<Stats>> {
        let call = self.get(&[&SERVICE, &["stats"][..]].concat());
        self.ask(call.query("limit", limit).query("cursor", cursor)).await
    }

    /// Takes the most urgent reviews for a reviewer.
    pub async fn review_pop_for(&self, pop: &PopFor) -> Result<Popped> {
        let mut call = self.service_post(&["pop"], pop)?;
        call.timeout = Some(waiting(pop.wait_seconds));
        self.ask(call).await
    }

    /// Decides on reviews for a reviewer. Said twice, it is answered the same.
    pub async fn review_commit_for(&self, commit: &CommitFor) -> Result<Answers<Decided>> {
        self.ask_each(self.service_post(&["commit"], commit)?.repeatable())
            .await
    }

    /// Gives reviews back for a reviewer.
    pub async fn review_release_for(&self, release: &ReleaseFor) -> Result<Answers<PutBack>> {
        self.ask_each(self.service_post(&["release"], release)?).await
    }

    /// Keeps reviews that a reviewer still looks at.
    pub async fn review_heartbeat_for(&self, reviews: &ReviewsFor) -> Result<Answers<Kept>> {
        self.ask_each(self.service_post(&["heartbeat"], reviews)?.repeatable())
            .await
    }

    /// Takes a reviewer's decisions back.
    pub async fn review_undo_for(&self, reviews: &ReviewsFor) -> Result<Answers<TakenBack>> {
        self.ask_each(self.service_post(&["undo"], reviews)?).await
    }

    /// Takes a certain review for a reviewer.
    pub async fn review_claim_for(&self, queue_id: &str, reviewer_id: &str) -> Result<Entry> {
        let body = ClaimFor {
            reviewer_id: reviewer_id.to_owned(),
        };
        let call = self.service_post(&[queue_id, "claim"], &body)?;
        self.ask(call.repeatable()).await
    }

    /// Finds reviews whose holders are silent now.
    pub async fn review_reap(&self, reap: &ReapReviews) -> Result<ReapedReviews> {
        self.ask(self.service_post(&["reap"], reap)?.repeatable()).await
    }

    /// Brings items that were finished elsewhere up for review. Brought twice, they change nothing.
    pub async fn review_entries(
        &self,
        collection_id: &str,
        entries: Vec<SubmitItem>,
    ) -> Result<Answers<Entered>> {
        let body = Entries {
            collection_id: collection_id.to_owned(),
            entries,
        };
        self.ask_each(self.service_post(&["entries"], &body)?.repeatable())
            .await
    }
}
