//! Definitions of pipelines, remembered: a version never changes, so it is read once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use docket_core::id::PipelineKey;
use docket_core::pipeline::Pipeline;
use docket_store::table::pipeline;
use docket_store::{Result, Tx};

/// More versions than this are forgotten and read again.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Definitions {
    versions: Mutex<HashMap<(PipelineKey, i64), Arc<Pipeline>>>,
    keys: Mutex<HashMap<String, PipelineKey>>,
}

impl Definitions {
    pub(crate) async fn get(&self, tx: &mut Tx, key: PipelineKey, version: i64) -> Result<Arc<Pipeline>> {
        if let Some(known) = self.known(key, version) {
            return Ok(known);
        }
        let read = Arc::new(pipeline::version(tx, key, version).await?);
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if versions.len() >= REMEMBERED_MAX {
            versions.clear();
        }
        versions.insert((key, version), Arc::clone(&read));
        Ok(read)
    }

    pub(crate) fn known(&self, key: PipelineKey, version: i64) -> Option<Arc<Pipeline>> {
        self.versions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&(key, version))
            .cloned()
    }

    pub(crate) fn key(&self, name: &str) -> Option<PipelineKey> {
        self.keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .copied()
    }

    /// Remembers a key; it never changes.
    pub(crate) fn remember(&self, name: &str, key: PipelineKey) {
        self.keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), key);
    }
}
