//! What operators set up, as it is seen and listed; and whose things are.

use docket_core::Refusal;
use docket_core::id::{ItemId, PauseId};
use docket_core::name::{CollectionId, PipelineName, TenantId};
use docket_core::pipeline::Pipeline;
use docket_core::scope::Operator;
use docket_store::table::{collection, listing, tenant};
use docket_store::{Error, Result};
use serde_json::Value;

use crate::engine::Engine;

pub use docket_store::table::listing::PauseRow as PauseView;
pub use docket_store::table::tenant::Tenant as TenantView;

/// The most entries of a page.
const PAGE_MAX: u64 = 200;

/// A page of a list.
#[derive(Clone, Debug)]
pub struct ListPage<T, C> {
    /// The entries.
    pub items: Vec<T>,
    /// Where the next page begins; none at the end.
    pub next: Option<C>,
}

impl<T, C> ListPage<T, C> {
    /// A page out of rows of which one more than the page's length was asked for.
    pub(crate) fn of(mut items: Vec<T>, limit: u64, cursor: impl FnOnce(&T) -> C) -> Self {
        let more = items.len() as u64 > limit;
        items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let next = items.last().filter(|_| more).map(cursor);
        Self { items, next }
    }
}

/// A collection as it is seen.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct CollectionView {
    pub id: String,
    pub tenant_id: String,
    pub pipeline: Option<String>,
    pub review: bool,
    pub settings: Value,
}

/// A pipeline as it is seen.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct PipelineView {
    pub name: String,
    pub version: i64,
    pub definition: Pipeline,
}

fn check_limit(limit: u64) -> Result<u64> {
    if limit == 0 || limit > PAGE_MAX {
        return Err(Refusal::invalid("limit", format!("must be from 1 to {PAGE_MAX}")).into());
    }
    Ok(limit)
}

fn json<T: serde::de::DeserializeOwned>(what: &'static str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|source| Error::Json { what, source })
}

fn collection_view(row: listing::CollectionRow) -> Result<CollectionView> {
    Ok(CollectionView {
        settings: json("a collection's settings", &row.settings)?,
        id: row.id,
        tenant_id: row.tenant_id,
        pipeline: row.pipeline,
        review: row.to_review,
    })
}

fn pipeline_view(row: listing::PipelineRow) -> Result<PipelineView> {
    Ok(PipelineView {
        definition: json("a pipeline", &row.definition)?,
        name: row.name,
        version: row.version,
    })
}

impl Engine {
    /// A tenant with the limits that apply to it.
    pub async fn tenant(&self, _who: &Operator, id: &TenantId) -> Result<TenantView> {
        let store = &self.kernel.store;
        let found = store.read("tenant", id.clone(), |tx, id| {
            Box::pin(tenant::get(tx, id.as_str()))
        });
        let found = found.await?;
        found.ok_or_else(|| Refusal::not_found("tenant", id).into())
    }

    /// The tenants, by id.
    pub async fn tenants(
        &self,
        _who: &Operator,
        after: Option<String>,
        limit: u64,
    ) -> Result<ListPage<TenantView, String>> {
        let params = (after.unwrap_or_default(), check_limit(limit)?);
        let store = &self.kernel.store;
        let found = store.read("tenants", params, |tx, p| {
            Box::pin(listing::tenants(tx, &p.0, p.1 + 1))
        });
        Ok(ListPage::of(found.await?, limit, |tenant| tenant.id.clone()))
    }

    /// A collection.
    pub async fn collection(&self, _who: &Operator, id: &CollectionId) -> Result<CollectionView> {
        let store = &self.kernel.store;
        let found = store.read("collection", id.clone(), |tx, id| {
            Box::pin(listing::collection(tx, id.as_str()))
        });
        let row = found.await?.ok_or_else(|| Refusal::not_found("collection", id))?;
        collection_view(row)
    }

    /// The collections, by id; of one tenant or of all.
    pub async fn collections(
        &self,
        _who: &Operator,
        tenant: Option<TenantId>,
        after: Option<String>,
        limit: u64,
    ) -> Result<ListPage<CollectionView, String>> {
        let params = (tenant, after.unwrap_or_default(), check_limit(limit)?);
        let store = &self.kernel.store;
        let found = store.read("collections", params, |tx, p| {
            Box::pin(listing::collections(
                tx,
                p.0.as_ref().map(TenantId::as_str),
                &p.1,
                p.2 + 1,
            ))
        });
        let views: Result<Vec<_>> = found.await?.into_iter().map(collection_view).collect();
        Ok(ListPage::of(views?, limit, |collection| collection.id.clone()))
    }

    /// A pipeline in its present version.
    pub async fn pipeline_view(&self, _who: &Operator, name: &PipelineName) -> Result<PipelineView> {
        let store = &self.kernel.store;
        let found = store.read("pipeline_view", name.clone(), |tx, name| {
            Box::pin(listing::pipeline(tx, name.as_str()))
        });
        let row = found.await?.ok_or_else(|| Refusal::not_found("pipeline", name))?;
        pipeline_view(row)
    }

    /// The pipelines, by name.
    pub async fn pipelines(
        &self,
        _who: &Operator,
        after: Option<String>,
        limit: u64,
    ) -> Result<ListPage<PipelineView, String>> {
        let params = (after.unwrap_or_default(), check_limit(limit)?);
        let store = &self.kernel.store;
        let found = store.read("pipelines", params, |tx, p| {
            Box::pin(listing::pipelines(tx, &p.0, p.1 + 1))
        });
        let views: Result<Vec<_>> = found.await?.into_iter().map(pipeline_view).collect();
        Ok(ListPage::of(views?, limit, |pipeline| pipeline.name.clone()))
    }

    /// A pause with the names of what it stops.
    pub async fn pause_view(&self, _who: &Operator, id: PauseId) -> Result<PauseView> {
        let store = &self.kernel.store;
        let found = store.read("pause_view", id, |tx, id| Box::pin(listing::pause(tx, *id)));
        let found = found.await?;
        found.ok_or_else(|| Refusal::not_found("pause", &id).into())
    }

    /// The pauses there are, oldest first.
    pub async fn pauses_page(
        &self,
        _who: &Operator,
        after: Option<PauseId>,
        limit: u64,
    ) -> Result<ListPage<PauseView, PauseId>> {
        let first = PauseId::from_uuid(uuid::Uuid::nil());
        let params = (after.unwrap_or(first), check_limit(limit)?);
        let store = &self.kernel.store;
        let found = store.read("pauses_page", params, |tx, p| {
            Box::pin(listing::pauses(tx, p.0, p.1 + 1))
        });
        Ok(ListPage::of(found.await?, limit, |pause| pause.id))
    }

    /// Whose item it is, for those who act for any tenant. That the item itself is there is not said.
    pub async fn item_owner(&self, _who: &Operator, id: ItemId) -> Result<TenantId> {
        let store = &self.kernel.store;
        let found = store.read("item_owner", id, |tx, id| {
            Box::pin(collection::by_key(tx, id.collection()))
        });
        let owner = found.await?.ok_or_else(|| Refusal::not_found("item", &id))?;
        Ok(TenantId::new(owner.tenant_id)?)
    }

    /// Whose collection it is, for those who act for any tenant.
    pub async fn collection_owner(&self, _who: &Operator, id: &CollectionId) -> Result<TenantId> {
        let store = &self.kernel.store;
        let found = store.read("collection_owner", id.clone(), |tx, id| {
            Box::pin(collection::get(tx, id.as_str()))
        });
        let owner = found.await?.ok_or_else(|| Refusal::not_found("collection", id))?;
        Ok(TenantId::new(owner.tenant_id)?)
    }
}
