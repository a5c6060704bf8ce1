//! Tenants, tiers and the rolling window of their submissions.

use std::collections::HashMap;

use docket_core::Timestamp;
use docket_core::limit::Window;
use docket_core::tenant::{TenantSettings, Tier, UploadLimit};

use crate::error::{Error, Result};
use crate::params;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value, int_of};

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
    TAKE = sqlite "tenant_take" "update tenant set intake_next = intake_next + $2 where id = $1";
    SLOT = sqlite "tenant_slot" "
insert into intake_slot (tenant_id, at_ms, first) values ($1, $2, $3) on conflict (tenant_id, at_ms) do nothing";
    LOCK_MANY = postgres "tenant_lock_many" "
select id, intake_next from tenant where id = any ($1::text[]) order by id collate \"C\" for no key update";
    WINDOWS = postgres "tenant_windows" "
select t.id, o.at_ms, o.first, n.at_ms, r.n
from unnest($1::text[]) as t (id)
left join lateral (
  select at_ms, first from intake_slot where tenant_id = t.id and at_ms > $2 order by at_ms limit 1) o on true
left join lateral (select at_ms from intake_slot where tenant_id = t.id order by at_ms desc limit 1) n on true
cross join lateral (select count(*) as n from upload where tenant_id = t.id and reserved and expires_at_ms > $3) r";
    TAKE_MANY = postgres "tenant_take_many" "
with x as materialized (
  select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) as x (tenant_id, at_ms, first, n)),
s as (
  insert into intake_slot (tenant_id, at_ms, first) select tenant_id, at_ms, first from x
  on conflict (tenant_id, at_ms) do nothing)
update tenant t set intake_next = t.intake_next + x.n from x where t.id = x.tenant_id";
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

/// The same for several tenants, which come in the order of their ids. In two statements: what a window holds is looked up when nobody
/// else can change it any more.
pub async fn lock_windows(
    tx: &mut Tx,
    tenants: &[(String, UploadLimit)],
    now: Timestamp,
) -> Result<Vec<Window>> {
    let mut windows = Vec::with_capacity(tenants.len());
    let Driver::Postgres(_) = tx.driver else {
        for (id, limit) in tenants {
            windows.push(lock_window(tx, id, *limit, now).await?);
        }
        return Ok(windows);
    };
    let ids = Value::Texts(tenants.iter().map(|(id, _)| Some(id.clone())).collect());
    let mut next = HashMap::new();
    for mut row in tx.rows(&LOCK_MANY, params![ids.clone()]).await? {
        next.insert(row.text(0)?, row.count(1)?);
    }
    let mut found = HashMap::new();
    for mut row in tx.rows(&WINDOWS, params![ids, Window::cutoff(now), now]).await? {
        let oldest = row.opt_time(1)?.zip(row.opt_count(2)?);
        found.insert(row.text(0)?, (oldest, row.opt_time(3)?, row.count(4)?));
    }
    for (id, limit) in tenants {
        let missing = || Error::WrongRows {
            statement: LOCK_MANY.name,
            touched: 0,
            expected: 1,
        };
        let next = *next.get(id).ok_or_else(missing)?;
        let (oldest, newest, reserved) = *found.get(id).ok_or_else(missing)?;
        let mut window = Window {
            next,
            oldest,
            newest,
            reserved,
            leaving: oldest.map(|(at, _)| at),
        };
        find_leaving(tx, (id, *limit), &mut window).await?;
        windows.push(window);
    }
    Ok(windows)
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
    let newest = tx.row_opt(&NEWEST, params![id]).await?;
    let reserved = tx.row(&RESERVED, params![id, now]).await?.count(0)?;
    let mut window = Window {
        next,
        oldest,
        newest: newest.map(|mut row| row.time(0)).transpose()?,
        reserved,
        leaving: oldest.map(|(at, _)| at),
    };
    find_leaving(tx, (id, limit), &mut window).await?;
    Ok(window)
}

/// Finds out which submission has to leave a window that holds more than its limit now allows.
async fn find_leaving(tx: &mut Tx, (id, limit): (&str, UploadLimit), window: &mut Window) -> Result<()> {
    if let Some(number) = window.must_leave(limit) {
        let at = tx.row_opt(&AT_NUMBER, params![id, number]).await?;
        window.leaving = at.map(|mut row| row.time(0)).transpose()?.or(window.leaving);
    }
    Ok(())
}

/// Submissions to be counted: whose, in which window, and how many.
pub type Taken = (String, Window, u64);

/// Counts submissions, the tenants' windows being locked.
pub async fn take(tx: &mut Tx, taken: &[Taken], now: Timestamp) -> Result<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let Driver::Postgres(_) = tx.driver else {
        for (id, window, n) in taken {
            tx.execute(&SLOT, params![id, window.moment(now), window.next])
                .await?;
            tx.execute_one(&TAKE, params![id, *n]).await?;
        }
        return Ok(());
    };
    let ints = |of: fn(&Window, Timestamp) -> i64| {
        Value::Ints(taken.iter().map(|(_, window, _)| Some(of(window, now))).collect())
    };
    let params = params![
        Value::Texts(taken.iter().map(|(id, _, _)| Some(id.clone())).collect()),
        ints(|window, now| window.moment(now).ms()),
        ints(|window, _| int_of(window.next)),
        Value::Ints(taken.iter().map(|(_, _, n)| Some(int_of(*n))).collect()),
    ];
    let (touched, expected) = (tx.execute(&TAKE_MANY, params).await?, taken.len() as u64);
    if touched != expected {
        return Err(Error::WrongRows {
            statement: TAKE_MANY.name,
            touched,
            expected,
        });
    }
    Ok(())
}

/// Forgets moments that have left the window.
pub async fn sweep_slots(tx: &mut Tx, now: Timestamp, limit: u64) -> Result<u64> {
    tx.execute(&SWEEP_SLOTS, params![Window::cutoff(now), limit])
        .await
}
