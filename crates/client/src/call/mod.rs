//! The calls, one method each, grouped as the contract groups them.

pub(crate) mod admin;
pub(crate) mod intake;
pub(crate) mod log;
pub(crate) mod notification;
pub(crate) mod work;

use reqwest::Method;
use serde::Serialize;

use crate::client::{Call, Client};
use crate::error::Result;

impl Client {
    /// A creating call, with a key of its own: repeated, it creates nothing more.
    pub(crate) fn create(&self, segments: &[&str], body: &impl Serialize) -> Result<Call> {
        let key = self.idempotency_key();
        Ok(self
            .post(segments, body)?
            .header("idempotency-key", &key)
            .repeatable())
    }

    /// A call that sets something: repeated, it sets the same.
    pub(crate) fn put(&self, segments: &[&str], body: &impl Serialize) -> Result<Call> {
        Ok(self.with_json(Method::PUT, segments, body)?.repeatable())
    }
}
