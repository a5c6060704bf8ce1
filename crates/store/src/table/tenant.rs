//! Tenants, tiers and the rolling window of their submissions.

use docket_core::Timestamp;
use docket_core::limit::Window;
use docket_core::tenant::{TenantSettings, Tier, UploadLimit};

use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

crate::statements! {
    TIER_PUT = portable "tier_put" "
insert into tier (name, uploads_per_hour, concurrent_jobs) values ($1, $2, $3)
on conflict (name) do update set uploads_per_hour = excluded.uploads_per_hour, concurrent_jobs = excluded.concurrent_jobs";
    TIERS = portable "tiers" "select name, uploads_per_hour, concurrent_jobs from tier order by name";
    SET_UP = portable "set_up_lock" "select name from tier order by name for no key update";
    PUT = portable "tenant_put" "
insert into tenant (id, tier, uploads_per_hour, concurrent_jobs, created_at_ms, updated_at_ms) values ($1, $2, $3, $4, $5, $5)
on conflict (id) do update set tier = excluded.tier, uploads_per_hour = excluded.uploads_per_hour,
  concurrent_jobs = excluded.concurrent_jobs, updated_at_ms = excluded.updated_at_ms";
    GET = portable "tenant_get" "
select t.id, t.tier, case when t.uploads_per_hour = -1 then null else coalesce(t.uploads_per_hour, r.uploads_per_hour) end,
       coalesce(t.concurrent_jobs, r.concurrent_jobs), t.intake_next
from tenant t join tier r on r.name = t.tier where t.id = $1";
    LOCK = portable "tenant_lock" "select intake_next from tenant where id = $1 for no key update";
    OLDEST = portable "tenant_window_oldest" "
select at_ms, first from intake_slot where tenant_id = $1 and at_ms > $2 order by at_ms limit 1";
    NEWEST = portable "tenant_window_newest" "
select at_ms from intake_slot where tenant_id = $1 order by at_ms desc limit 1";
    AT_NUMBER = portable "tenant_window_at_number" "
select at_ms from intake_slot where tenant_id = $1 and first <= $2 order by at_ms desc limit 1";
    RESERVED = portable "tenant_reserved" "
select count(*) from upload where tenant_id = $1 and reserved and expires_at_ms > $2";
    TAKE = portable "tenant_take" "update tenant set intake_next = intake_next + $2 where id = $1";
    SLOT = portable "tenant_slot" "
insert into intake_slot (tenant_id, at_ms, first) values ($1, $2, $3) on conflict (tenant_id, at_ms) do nothing";
    SWEEP_SLOTS = split "tenant_sweep_slots"
        "delete from intake_slot where ctid = any (array(
           select ctid from intake_slot where at_ms <= $1 limit $2 for update skip locked))"
        "delete from intake_slot where (tenant_id, at_ms) in (
           select tenant_id, at_ms from intake_slot where at_ms <= $1 limit $2)";
}

/// A tenant with the limits that apply to it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Tenant {
    pub id: String,
    pub tier: String,
    pub uploads: UploadLimit,
    pub concurrent_jobs: u32,
    /// The number that its next limited submission has.
    pub intake_next: u64,
}

pub(crate) fn upload_limit(per_hour: Option<i64>) -> UploadLimit {
    per_hour.map_or(UploadLimit::Unlimited, |n| {
        UploadLimit::PerHour(u32::try_from(n).unwrap_or(0))
    })
}

fn read(mut row: Row) -> Result<Tenant> {
    Ok(Tenant {
        id: row.text(0)?,
        tier: row.text(1)?,
        uploads: upload_limit(row.opt_int(2)?),
        concurrent_jobs: u32::try_from(row.int(3)?).map_err(|_| row.inconsistent(3))?,
        intake_next: row.count(4)?,
    })
}

/// Makes or changes a tier.
pub async fn tier_put(tx: &mut Tx, tier: &Tier) -> Result<()> {
    let per_hour = match tier.uploads {
        UploadLimit::Unlimited => None,
        UploadLimit::PerHour(n) => Some(n),
    };
    tx.execute_one(&TIER_PUT, params![&tier.name, per_hour, tier.concurrent_jobs])
        .await
}

/// Waits for anybody else who sets something up, and lets nobody else do so until the end of the transaction: limits stand in
/// tiers, tenants and lanes, and whoever writes one of them has to see the others as they are. Intake and claims are not held up.
pub async fn lock_set_up(tx: &mut Tx) -> Result<()> {
    tx.rows(&SET_UP, &[]).await.map(|_| ())
}

/// All tiers.
pub async fn tiers(tx: &mut Tx) -> Result<Vec<Tier>> {
    let rows = tx.rows(&TIERS, &[]).await?;
    rows.into_iter()
        .map(|mut row| {
            Ok(Tier {
                name: row.text(0)?,
                uploads: upload_limit(row.opt_int(1)?),
                concurrent_jobs: u32::try_from(row.int(2)?).map_err(|_| row.inconsistent(2))?,
            })
        })
        .collect()
}

/// Makes or changes a tenant.
pub async fn put(tx: &mut Tx, tenant: &TenantSettings, now: Timestamp) -> Result<()> {
    let per_hour = tenant.uploads.map(|limit| match limit {
        UploadLimit::Unlimited => -1,
        UploadLimit::PerHour(n) => i64::from(n),
    });
    tx.execute_one(
        &PUT,
        params![&tenant.id, &tenant.tier, per_hour, tenant.concurrent_jobs, now],
    )
    .await
}

/// A tenant.
pub async fn get(tx: &mut Tx, id: &str) -> Result<Option<Tenant>> {
    tx.row_opt(&GET, params![id]).await?.map(read).transpose()
}

/// Locks a tenant's window and reads it.
pub async fn lock_window(tx: &mut Tx, id: &str, limit: UploadLimit, now: Timestamp) -> Result<Window> {
    let next = tx.row(&LOCK, params![id]).await?.count(0)?;
    window_from(tx, (id, limit), next, now).await
}

/// Reads a tenant's window as it is.
pub async fn window(tx: &mut Tx, tenant: &Tenant, now: Timestamp) -> Result<Window> {
    window_from(tx, (&tenant.id, tenant.uploads), tenant.intake_next, now).await
}

async fn window_from(
    tx: &mut Tx,
    (id, limit): (&str, UploadLimit),
    next: u64,
    now: Timestamp,
) -> Result<Window> {
    let oldest = tx.row_opt(&OLDEST, params![id, Window::cutoff(now)]).await?;
    let oldest = oldest
        .map(|mut row| Ok::<_, crate::Error>((row.time(0)?, row.count(1)?)))
        .transpose()?;
    let reserved = tx.row(&RESERVED, params![id, now]).await?.count(0)?;
    let mut window = Window {
        next,
        oldest,
        reserved,
        leaving: oldest.map(|(at, _)| at),
    };
    if let Some(number) = window.must_leave(limit) {
        let at = tx.row_opt(&AT_NUMBER, params![id, number]).await?;
        window.leaving = at.map(|mut row| row.time(0)).transpose()?.or(window.leaving);
    }
    Ok(window)
}

/// Counts `n` submissions, the tenant's window being locked. Moments never run backwards within a window, whatever the clock does.
pub async fn take(tx: &mut Tx, id: &str, window: &Window, n: u64, now: Timestamp) -> Result<()> {
    let newest = tx.row_opt(&NEWEST, params![id]).await?;
    let newest = newest.map(|mut row| row.time(0)).transpose()?;
    let at = newest.map_or(now, |newest| newest.max(now));
    tx.execute(&SLOT, params![id, at, window.next]).await?;
    tx.execute_one(&TAKE, params![id, n]).await
}

/// Forgets moments that have left the window.
pub async fn sweep_slots(tx: &mut Tx, now: Timestamp, limit: u64) -> Result<u64> {
    tx.execute(&SWEEP_SLOTS, params![Window::cutoff(now), limit])
        .await
}
