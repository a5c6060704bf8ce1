//! The calls, one method each, grouped as the contract groups them.

pub(crate) mod admin;
pub(crate) mod insight;
pub(crate) mod intake;
pub(crate) mod log;
pub(crate) mod notification;
pub(crate) mod review;
pub(crate) mod work;

use std::time::Duration;

use docket_wire::{EntryError, Outcome, Results};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Call, Client};
use crate::error::Result;

/// What a call about several things is answered with: a result for each, in order.
pub type Answers<T> = Vec<std::result::Result<T, EntryError>>;

/// How much longer than its wait a call that waits may take.
const WAIT_EXTRA: Duration = Duration::from_secs(15);

/// How long a call that waits may take.
pub(crate) fn waiting(wait_seconds: Option<f64>) -> Duration {
    Duration::try_from_secs_f64(wait_seconds.unwrap_or(0.0)).unwrap_or_default() + WAIT_EXTRA
}

impl Client {
    /// Makes a call about several things.
    pub(crate) async fn ask_each<T: DeserializeOwned>(&self, call: Call) -> Result<Answers<T>> {
        let results: Results<T> = self.ask(call).await?;
        Ok(results.results.into_iter().map(Outcome::into_result).collect())
    }

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
