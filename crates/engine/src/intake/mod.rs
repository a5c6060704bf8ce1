//! Intake: items come in, alone, in batches or as files (rules I1 to I7).

pub(crate) mod classify;
pub(crate) mod group;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod places;
pub(crate) mod prepare;
mod run;
pub(crate) mod submit;
pub(crate) mod upload;
pub(crate) mod version;
