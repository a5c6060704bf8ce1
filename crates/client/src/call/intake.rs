//! Intake: limits, items, and what can be asked about them.

use docket_wire::Page;
use docket_wire::item::{Enqueued, Explanation, Item, ItemSummary, Position, Submit, SubmitItem, Submitted};
use docket_wire::job::Job;
use docket_wire::limit::Limits;
use docket_wire::log::LogEntry;
use serde_json::json;

use super::Answers;
use crate::client::{Call, Client};
use crate::error::Result;

/// Which items of a list.
#[derive(Clone, Debug, Default)]
pub struct ItemsFilter {
    /// Whose; for those who may see several tenants.
    pub tenant_id: Option<String>,
    /// Of which collection.
    pub collection_id: Option<String>,
    /// In which state, in the contract's word.
    pub status: Option<String>,
    /// With this id of the caller's.
    pub external_id: Option<String>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

impl Client {
    /// What a tenant may still submit; its own where none is named.
    pub async fn limits(&self, tenant_id: Option<&str>) -> Result<Limits> {
        self.ask(self.get(&["api", "v1", "limits"]).query("tenantId", tenant_id))
            .await
    }

    /// Submits JSON items, up to 1,000, with a result for each. With an idempotency key of one's own the same submission can be
    /// made again by another process.
    pub async fn items_submit(
        &self,
        collection_id: &str,
        items: Vec<SubmitItem>,
        idempotency_key: Option<&str>,
    ) -> Result<Answers<Submitted>> {
        let mut call = self.create(
            &["api", "v1", "collections", collection_id, "items"],
            &Submit { items },
        )?;
        if let Some(key) = idempotency_key {
            call = call.header("idempotency-key", key);
        }
        self.ask_each(call).await
    }

    /// A page of items.
    pub async fn items(&self, filter: &ItemsFilter) -> Result<Page<ItemSummary>> {
        let call = self
            .get(&["api", "v1", "items"])
            .query("tenantId", filter.tenant_id.as_deref())
            .query("collectionId", filter.collection_id.as_deref())
            .query("status", filter.status.as_deref())
            .query("externalId", filter.external_id.as_deref())
            .query("limit", filter.limit)
            .query("cursor", filter.cursor.as_deref());
        self.ask(call).await
    }

    fn item_get(&self, id: &str, more: &[&str]) -> Call {
        let mut segments = vec!["api", "v1", "items", id];
        segments.extend(more);
        self.get(&segments)
    }

    /// An item with all that belongs to it.
    pub async fn item(&self, id: &str) -> Result<Item> {
        self.ask(self.item_get(id, &[])).await
    }

    /// Where an item stands.
    pub async fn item_position(&self, id: &str) -> Result<Position> {
        self.ask(self.item_get(id, &["position"])).await
    }

    /// All runs of an item.
    pub async fn item_jobs(&self, id: &str, cursor: Option<&str>) -> Result<Page<Job>> {
        self.ask(self.item_get(id, &["jobs"]).query("cursor", cursor))
            .await
    }

    /// The log of an item.
    pub async fn item_timeline(
        &self,
        id: &str,
        limit: Option<u64>,
        cursor: Option<&str>,
    ) -> Result<Page<LogEntry>> {
        let call = self.item_get(id, &["timeline"]);
        self.ask(call.query("limit", limit).query("cursor", cursor)).await
    }

    /// Why an item is not running.
    pub async fn item_explain(&self, id: &str) -> Result<Explanation> {
        self.ask(self.item_get(id, &["explain"])).await
    }

    fn item_post(&self, id: &str, what: &str) -> Result<Call> {
        self.create(&["api", "v1", "items", id, what], &json!({}))
    }

    /// Runs a failed item again.
    pub async fn item_retry(&self, id: &str) -> Result<Enqueued> {
        self.ask(self.item_post(id, "retry")?).await
    }

    /// Runs a finished item again.
    pub async fn item_reprocess(&self, id: &str) -> Result<Enqueued> {
        self.ask(self.item_post(id, "reprocess")?).await
    }

    /// Takes an item back.
    pub async fn item_cancel(&self, id: &str) -> Result<()> {
        self.tell(self.item_post(id, "cancel")?).await
    }
}
