//! A desk: reviewers at work on a world's reviews, short to write.

use docket_core::field::MachineField;
use docket_core::id::{ItemId, ReviewId};
use docket_core::item::ItemDetails;
use docket_core::name::ReviewerId;
use docket_core::review::{FieldCorrection, Outcome};
use docket_core::scope::{Reviewing, Scope};
use docket_core::{Refused, pipeline::Pipeline};
use docket_engine::{
    CollectionSettings, Complete, Decided, Decision, Engine, Pop, Popped, ReviewEntry, ReviewRelease,
    ReviewerSettings, Submit, SubmitItem,
};
use serde_json::{Value, json};

use crate::World;
use crate::world::names;

/// A reviewer of this tenant.
pub fn reviewer(tenant: &str, id: &str) -> Reviewing {
    let scope = Scope {
        actor: docket_core::scope::Actor::new(format!("reviewer:{id}")).unwrap(),
        ..World::scope(tenant)
    };
    Reviewing::of(&scope, ReviewerId::new(id).unwrap())
}

/// A lead of this tenant.
pub fn lead(tenant: &str, id: &str) -> Reviewing {
    let scope = Scope {
        actor: docket_core::scope::Actor::new(format!("lead:{id}")).unwrap(),
        ..World::scope(tenant)
    };
    Reviewing::lead(&scope, ReviewerId::new(id).unwrap())
}

/// Submits so many items to the tenant's collection, at this server; all must be taken.
pub async fn submit_at(engine: &Engine, tenant: &str, prefix: &str, n: usize) {
    let call = Submit {
        collection: names::collection(tenant),
        items: (0..n).map(|k| World::item(&format!("{prefix}-{k}"))).collect(),
        idempotency_key: None,
    };
    let answer = engine.submit(&World::scope(tenant), call).await;
    for result in answer.expect("the call is taken").results {
        result.expect("the item is taken");
    }
}

/// What a reviewer is given of the tenant's collection, at this server.
pub async fn pop_from(engine: &Engine, tenant: &str, who: &str, limit: u32) -> Popped {
    let wish = Pop {
        collection: names::collection(tenant),
        limit,
        strategy: None,
        lock_timeout_ms: None,
        wait_ms: 0,
    };
    let who = reviewer(tenant, who);
    let popped = engine.review_pop(&who, wish, std::future::pending());
    popped.await.expect("the pop is taken")
}

/// Decides on one review, at this server.
pub async fn decide_at(engine: &Engine, tenant: &str, who: &str, decision: Decision) -> Refused<Decided> {
    let who = reviewer(tenant, who);
    let decided = engine.review_commit(&who, vec![Ok(decision)]);
    decided.await.expect("the call is taken").pop().unwrap()
}

/// A field as a machine reads it.
pub fn said(name: &str, value: impl Into<Value>, confidence: f64) -> MachineField {
    MachineField {
        name: name.to_owned(),
        value: value.into(),
        confidence: Some(confidence),
        region: None,
    }
}

/// A decision without more to it.
pub fn decision(id: ReviewId, outcome: Outcome) -> Decision {
    Decision {
        id,
        generation_id: None,
        token: None,
        outcome,
        reason: (outcome == Outcome::Rejected).then(|| "not readable".to_owned()),
        corrections: Vec::new(),
    }
}

/// A correction of one field.
pub fn correction(id: ReviewId, field: &str, value: impl Into<Value>) -> Decision {
    Decision {
        corrections: vec![FieldCorrection {
            field: field.to_owned(),
            value: value.into(),
        }],
        ..decision(id, Outcome::Corrected)
    }
}

impl World {
    /// Makes a tenant, and a collection of its name whose items arrive finished and are reviewed by this policy.
    pub async fn desk(&self, tenant: &str, policy: Value) {
        self.tenant(tenant, 10).await;
        self.review_policy(tenant, policy).await;
    }

    /// Changes the policy of such a collection.
    pub async fn review_policy(&self, tenant: &str, policy: Value) {
        let settings = CollectionSettings {
            id: names::collection(tenant),
            tenant: names::tenant(tenant),
            pipeline: None,
            review: true,
            settings: json!({ "review": policy }),
        };
        let put = self.engine.collection_put(&Self::operator(), settings).await;
        put.expect("the collection is taken");
    }

    /// Makes a tenant, and a collection of its name whose items are processed by pipeline `work` and then reviewed by this policy.
    pub async fn pipeline_desk(&self, tenant: &str, policy: Value) {
        self.tenant(tenant, 1_000).await;
        let definition = Pipeline {
            review: true,
            ..Pipeline::default()
        };
        self.pipeline("work", definition).await;
        let settings = CollectionSettings {
            id: names::collection(tenant),
            tenant: names::tenant(tenant),
            pipeline: Some(names::pipeline("work")),
            review: true,
            settings: json!({ "review": policy }),
        };
        let put = self.engine.collection_put(&Self::operator(), settings).await;
        put.expect("the collection is taken");
    }

    /// Submits an item with these fields, which must be taken.
    pub async fn submit_with(&self, tenant: &str, external_id: &str, details: ItemDetails) -> ItemId {
        let item = SubmitItem {
            payload: json!({ "for": external_id }),
            details: ItemDetails {
                external_id: Some(external_id.to_owned()),
                ..details
            },
        };
        let mut answer = self.submit(tenant, vec![item]).await.expect("the call is taken");
        answer.results.pop().unwrap().expect("the item is taken").id
    }

    /// Processes the next job of pipeline `work`, with these fields.
    pub async fn process_next(&self, fields: Vec<MachineField>) -> ItemId {
        let job = self.claim_one("w1").await;
        let done = Complete {
            fields: Some(fields),
            ..Complete::new(job.id, job.token)
        };
        let mut results = self.engine.complete(vec![done]).await.expect("the call is taken");
        results.pop().unwrap().expect("the job is completed").item
    }

    /// Pops up to so many reviews of the tenant's collection.
    pub async fn pop(&self, tenant: &str, who: &str, limit: u32) -> Popped {
        pop_from(&self.engine, tenant, who, limit).await
    }

    /// Pops exactly one review.
    pub async fn pop_one(&self, tenant: &str, who: &str) -> ReviewEntry {
        let mut popped = self.pop(tenant, who, 1).await;
        popped.entries.pop().expect("there is a review to pop")
    }

    /// Decides on one review.
    pub async fn decide(&self, tenant: &str, who: &str, decision: Decision) -> Refused<Decided> {
        decide_at(&self.engine, tenant, who, decision).await
    }

    /// Gives one review back.
    pub async fn give_back(&self, tenant: &str, who: &str, id: ReviewId, skip: bool) -> Refused<()> {
        let release = ReviewRelease {
            ids: vec![id],
            skip,
            reason: skip.then(|| "not mine".to_owned()),
        };
        let mut results = self
            .engine
            .review_release(&reviewer(tenant, who), release)
            .await
            .expect("the call is taken");
        results.pop().unwrap()
    }

    /// Describes a reviewer, who reviews for any tenant.
    pub async fn reviewer(&self, id: &str, available: bool, capacity: Option<u64>) {
        self.reviewer_of(None, id, available, capacity).await;
    }

    /// Describes a reviewer of this tenant.
    pub async fn reviewer_of(&self, tenant: Option<&str>, id: &str, available: bool, capacity: Option<u64>) {
        let settings = ReviewerSettings {
            id: ReviewerId::new(id).unwrap(),
            name: id.to_owned(),
            tenant: tenant.map(names::tenant),
            available,
            capacity,
        };
        let put = self.engine.reviewer_put(&Self::operator(), settings).await;
        put.expect("the reviewer is taken");
    }
}
