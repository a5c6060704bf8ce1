//! Administration: keys, tenants, collections, pipelines, reviewers, pauses.

use docket_wire::Page;
use docket_wire::collection::{Collection, CollectionPut};
use docket_wire::key::{Key, KeyCreate, KeyCreated};
use docket_wire::pause::{Pause, PauseSet};
use docket_wire::pipeline::{Pipeline, PipelinePut};
use docket_wire::reviewer::{Reviewer, ReviewerAvailability, ReviewerCapacity, ReviewerPut};
use docket_wire::tenant::{Tenant, TenantPut};
use reqwest::Method;

use crate::client::Client;
use crate::error::Result;

impl Client {
    /// Makes a key. It is shown this once.
    pub async fn key_create(&self, key: &KeyCreate) -> Result<KeyCreated> {
        // Not repeated where its fate is not known: the answer to a repeat could not show the key again.
        let idempotency_key = self.idempotency_key();
        let call = self.post(&["api", "v1", "keys"], key)?;
        self.ask(call.header("idempotency-key", &idempotency_key)).await
    }

    /// A page of the keys.
    pub async fn keys(&self, limit: Option<u64>, cursor: Option<&str>) -> Result<Page<Key>> {
        let call = self.get(&["api", "v1", "keys"]);
        self.ask(call.query("limit", limit).query("cursor", cursor)).await
    }

    /// Revokes a key.
    pub async fn key_revoke(&self, id: &str) -> Result<()> {
        self.tell(self.call(Method::DELETE, &["api", "v1", "keys", id]).repeatable())
            .await
    }

    /// Makes a tenant, or changes it.
    pub async fn tenant_put(&self, id: &str, tenant: &TenantPut) -> Result<Tenant> {
        self.ask(self.put(&["api", "v1", "tenants", id], tenant)?).await
    }

    /// A tenant.
    pub async fn tenant(&self, id: &str) -> Result<Tenant> {
        self.ask(self.get(&["api", "v1", "tenants", id])).await
    }

    /// A page of the tenants.
    pub async fn tenants(&self, limit: Option<u64>, cursor: Option<&str>) -> Result<Page<Tenant>> {
        let call = self.get(&["api", "v1", "tenants"]);
        self.ask(call.query("limit", limit).query("cursor", cursor)).await
    }

    /// Makes a collection, or changes it.
    pub async fn collection_put(&self, id: &str, collection: &CollectionPut) -> Result<Collection> {
        self.ask(self.put(&["api", "v1", "collections", id], collection)?)
            .await
    }

    /// A collection.
    pub async fn collection(&self, id: &str) -> Result<Collection> {
        self.ask(self.get(&["api", "v1", "collections", id])).await
    }

    /// A page of the collections.
    pub async fn collections(&self, limit: Option<u64>, cursor: Option<&str>) -> Result<Page<Collection>> {
        let call = self.get(&["api", "v1", "collections"]);
        self.ask(call.query("limit", limit).query("cursor", cursor)).await
    }

    /// Makes a pipeline, or its next version.
    pub async fn pipeline_put(&self, name: &str, pipeline: &PipelinePut) -> Result<Pipeline> {
        self.ask(self.put(&["api", "v1", "pipelines", name], pipeline)?)
            .await
    }

    /// A pipeline.
    pub async fn pipeline(&self, name: &str) -> Result<Pipeline> {
        self.ask(self.get(&["api", "v1", "pipelines", name])).await
    }

    /// A page of the pipelines.
    pub async fn pipelines(&self, limit: Option<u64>, cursor: Option<&str>) -> Result<Page<Pipeline>> {
        let call = self.get(&["api", "v1", "pipelines"]);
        self.ask(call.query("limit", limit).query("cursor", cursor)).await
    }

    /// Describes a reviewer.
    pub async fn reviewer_put(&self, id: &str, reviewer: &ReviewerPut) -> Result<Reviewer> {
        self.ask(self.put(&["api", "v1", "reviewers", id], reviewer)?)
            .await
    }

    /// Says whether a reviewer is there.
    pub async fn reviewer_availability(&self, id: &str, said: &ReviewerAvailability) -> Result<Reviewer> {
        self.ask(self.put(&["api", "v1", "reviewers", id, "availability"], said)?)
            .await
    }

    /// Says how many reviews a reviewer may hold.
    pub async fn reviewer_capacity(&self, id: &str, said: &ReviewerCapacity) -> Result<Reviewer> {
        self.ask(self.put(&["api", "v1", "reviewers", id, "capacity"], said)?)
            .await
    }

    /// A reviewer.
    pub async fn reviewer(&self, id: &str) -> Result<Reviewer> {
        self.ask(self.get(&["api", "v1", "reviewers", id])).await
    }

    /// A page of the reviewers.
    pub async fn reviewers(&self, limit: Option<u64>, cursor: Option<&str>) -> Result<Page<Reviewer>> {
        let call = self.get(&["api", "v1", "reviewers"]);
        self.ask(call.query("limit", limit).query("cursor", cursor)).await
    }

    /// Pauses everything, a pipeline or a lane.
    pub async fn pause(&self, pause: &PauseSet) -> Result<Pause> {
        self.ask(self.create(&["api", "v1", "pauses"], pause)?).await
    }

    /// What is paused.
    pub async fn pauses(&self) -> Result<Page<Pause>> {
        self.ask(self.get(&["api", "v1", "pauses"])).await
    }

    /// Lifts a pause.
    pub async fn resume(&self, pause_id: &str) -> Result<()> {
        self.tell(
            self.call(Method::DELETE, &["api", "v1", "pauses", pause_id])
                .repeatable(),
        )
        .await
    }
}
