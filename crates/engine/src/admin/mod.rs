//! What operators set up: API keys, tiers, tenants, pipelines, collections, pauses.

pub(crate) mod collection;
pub(crate) mod key;
pub(crate) mod listing;
pub(crate) mod once;
pub(crate) mod pause;
pub(crate) mod pipeline;
pub(crate) mod tenant;
