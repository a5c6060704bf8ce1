//! What operators set up: tiers, tenants, pipelines, collections, pauses.

pub(crate) mod collection;
pub(crate) mod pause;
pub(crate) mod pipeline;
pub(crate) mod tenant;
