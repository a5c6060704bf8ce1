//! Items as they are after a submission.

use std::collections::HashMap;

use docket_core::id::{CollectionKey, ItemId};
use docket_core::scope::Scope;
use docket_store::table::item::{self, Item};
use docket_store::{Result, Tx};

use crate::engine::Engine;

impl Engine {
    /// The tenant's items among these, by their ids: what was submitted just now, or earlier under the same key. Those that have been
    /// forgotten since are missing.
    pub async fn items_by_id(&self, scope: &Scope, ids: Vec<ItemId>) -> Result<HashMap<ItemId, Item>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let params = (scope.clone(), ids);
        self.kernel
            .store
            .read("items_by_id", params, |tx, (scope, ids)| {
                Box::pin(items_by_id(tx, scope, ids))
            })
            .await
    }
}

async fn items_by_id(tx: &mut Tx, scope: &Scope, ids: &[ItemId]) -> Result<HashMap<ItemId, Item>> {
    let mut by_collection: HashMap<CollectionKey, Vec<ItemId>> = HashMap::new();
    for id in ids {
        by_collection.entry(id.collection()).or_default().push(*id);
    }
    let mut found = HashMap::with_capacity(ids.len());
    for (collection, ids) in by_collection {
        let items = item::get_many(tx, collection, &ids).await?;
        let own = items
            .into_iter()
            .filter(|item| item.tenant_id == scope.tenant.as_str());
        found.extend(own.map(|item| (item.id, item)));
    }
    Ok(found)
}
