//! The places that a batch of submissions may take: the limits of its tenants, locked, in the order of their ids.

use std::collections::BTreeMap;

use docket_core::Timestamp;
use docket_core::limit::{Allowance, Window};
use docket_core::tenant::UploadLimit;
use docket_store::table::tenant;
use docket_store::{Result, Tx};

/// One tenant's.
struct Places {
    /// None without a limit.
    window: Option<Window>,
    allowance: Allowance,
    used: u64,
    /// Places that uploads of this batch had reserved: nobody else's, as long as they are not asked for.
    held: u64,
}

/// The limits of the tenants of a batch.
pub(crate) struct Limits {
    tenants: BTreeMap<String, Places>,
}

impl Limits {
    /// Locks the tenants that have a limit. Of each call: its tenant, the limit, and whether it is an upload that has just given
    /// back the place it had reserved.
    pub(crate) async fn lock(
        tx: &mut Tx,
        calls: impl Iterator<Item = (&str, UploadLimit, bool)> + Send,
        now: Timestamp,
    ) -> Result<Self> {
        let mut limits: BTreeMap<String, (UploadLimit, u64)> = BTreeMap::new();
        for (id, limit, reserved) in calls {
            limits.entry(id.to_owned()).or_insert((limit, 0)).1 += u64::from(reserved);
        }
        let limited: Vec<_> = limits
            .iter()
            .filter(|(_, (limit, _))| *limit != UploadLimit::Unlimited)
            .map(|(id, (limit, _))| (id.clone(), *limit))
            .collect();
        let windows = match limited.is_empty() {
            true => Vec::new(),
            false => tenant::lock_windows(tx, &limited, now).await?,
        };
        let mut windows = windows.into_iter();
        let mut tenants = BTreeMap::new();
        for (id, (limit, reserved)) in limits {
            let of = |window| Places::of(window, limit, reserved, now);
            let places = match limit {
                UploadLimit::Unlimited => Places::unlimited(),
                UploadLimit::PerHour(_) => windows.next().map_or_else(Places::none, of),
            };
            tenants.insert(id, places);
        }
        Ok(Self { tenants })
    }

    /// Whether any of the tenants has a limit.
    pub(crate) fn are_any(&self) -> bool {
        self.tenants.values().any(|places| places.window.is_some())
    }

    /// What a tenant may still submit; with its own place for an upload that had reserved one.
    pub(crate) fn of(&mut self, tenant: &str, reserved: bool) -> &mut Allowance {
        let places = self.tenants.entry(tenant.to_owned()).or_insert_with(Places::none);
        if reserved && places.held > 0 {
            places.held -= 1;
            places.allowance.remaining += 1;
        }
        &mut places.allowance
    }

    pub(crate) fn used(&mut self, tenant: &str) {
        if let Some(places) = self.tenants.get_mut(tenant) {
            places.used += 1;
        }
    }

    /// Counts what was used against those that have a limit.
    pub(crate) async fn take(self, tx: &mut Tx, now: Timestamp) -> Result<()> {
        let taken = self.tenants.into_iter().filter_map(|(id, places)| {
            let window = places.window.filter(|_| places.used > 0)?;
            Some((id, window, places.used))
        });
        tenant::take(tx, &taken.collect::<Vec<_>>(), now).await
    }
}

impl Places {
    fn of(window: Window, limit: UploadLimit, reserved: u64, now: Timestamp) -> Self {
        let mut allowance = window.allowance(limit, now);
        if allowance.remaining > 0 {
            // Entries after those that use up the rest are told the wait, too.
            allowance.wait_ms = window.wait_once_full_ms(now);
        }
        // A limit that was lowered meanwhile may have no room for all that was reserved.
        let held = reserved.min(allowance.remaining);
        allowance.remaining -= held;
        Self {
            window: Some(window),
            allowance,
            used: 0,
            held,
        }
    }

    const fn unlimited() -> Self {
        Self {
            window: None,
            allowance: Allowance {
                limit: None,
                remaining: u64::MAX,
                wait_ms: 0,
            },
            used: 0,
            held: 0,
        }
    }

    const fn none() -> Self {
        Self {
            window: None,
            allowance: Allowance {
                limit: Some(0),
                remaining: 0,
                wait_ms: 0,
            },
            used: 0,
            held: 0,
        }
    }
}
