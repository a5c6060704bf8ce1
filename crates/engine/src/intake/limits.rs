//! What a tenant may still submit.

use docket_core::limit::Allowance;
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::tenant;
use docket_store::{Result, Tx};

use crate::engine::Engine;

impl Engine {
    /// What is left of the tenant's limit, now.
    pub async fn limits(&self, scope: &Scope) -> Result<Allowance> {
        let params = (scope.tenant.as_str().to_owned(), self.kernel.clock.now());
        self.kernel
            .store
            .read("limits", params, |tx, p| Box::pin(limits(tx, &p.0, p.1)))
            .await
    }
}

async fn limits(tx: &mut Tx, id: &str, now: Timestamp) -> Result<Allowance> {
    let found = tenant::get(tx, id)
        .await?
        .ok_or_else(|| Refusal::not_found("tenant", id))?;
    let window = tenant::window(tx, &found, now).await?;
    Ok(window.allowance(found.uploads, now))
}
