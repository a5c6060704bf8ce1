//! The stored file of an item, or a part of it.

use docket_core::Refusal;
use docket_core::id::ItemId;
use docket_core::scope::Scope;
use docket_store::Result;
use docket_store::table::item::Item;
use object_store::{GetRange, GetResult};

use super::item::item_of_tenant;
use crate::engine::Engine;

/// A file on its way out.
#[derive(Debug)]
pub struct ContentView {
    /// The item whose file it is.
    pub item: Item,
    /// Its bytes, as a stream; its `range` says which.
    pub bytes: GetResult,
}

impl Engine {
    /// The item whose file is wanted; refused where it has none.
    pub async fn content_item(&self, scope: &Scope, id: ItemId) -> Result<Item> {
        let params = (scope.clone(), id);
        let find = self.kernel.store.read("content_item", params, |tx, p| {
            Box::pin(item_of_tenant(tx, &p.0, p.1))
        });
        let item = find.await?;
        match item.blob_key {
            Some(_) => Ok(item),
            None => Err(Refusal::not_found("file of item", &id).into()),
        }
    }

    /// The stored file of an item, or a part of it that lies within it.
    pub async fn content_part(&self, item: Item, part: Option<GetRange>) -> Result<ContentView> {
        let key = item.blob_key.clone();
        let key = key.ok_or_else(|| Refusal::not_found("file of item", &item.id))?;
        let bytes = self.blobs.read_part(&key, part).await?;
        Ok(ContentView { item, bytes })
    }
}
