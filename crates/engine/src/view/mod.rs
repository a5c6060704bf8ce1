//! Seeing: items, their jobs, their place, their story.

pub(crate) mod content;
pub(crate) mod depth;
pub(crate) mod explain;
pub(crate) mod item;
pub(crate) mod items;
pub(crate) mod position;
pub(crate) mod submitted;
