//! Reading the log, a page at a time.
//!
//! A page shows everything that is committed. A page may be short, even empty, where few entries match; `next` tells whether to go on.
//! Whoever wants to hear of what comes later follows the log from [`LogPage::follow_from`], and misses nothing.

use docket_core::id::ItemId;
use docket_core::name::{CollectionId, TEXT_MAX, TenantId, check_text};
use docket_core::scope::{Operator, Scope};
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::{self, Entry, LogPosition, Order, Piece, Wanted};
use docket_store::table::{collection, seal};
use docket_store::{Result, Tx};

use crate::engine::Engine;
use crate::view::item::collection_of_tenant;

/// The longest page.
pub(crate) const PAGE_MAX: u64 = 200;
/// How many entries one call looks at.
pub(crate) const WINDOW: u64 = 10_000;
/// An entry is written at most this long after the moment that it carries.
const WRITTEN_WITHIN_MS: i64 = 600_000;

/// Which entries are meant. Nothing given is all of them.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Of this item.
    pub item: Option<ItemId>,
    /// Of items of this collection.
    pub collection: Option<CollectionId>,
    /// By this actor.
    pub actor: Option<String>,
    /// That say this, such as `job.completed`.
    pub action: Option<String>,
    /// From this moment on.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
}

/// A page that is asked for.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    /// Which entries.
    pub filter: LogFilter,
    /// Which way.
    pub order: Order,
    /// Where the page before ended.
    pub after: Option<LogPosition>,
    /// How many at the most, up to 200.
    pub limit: u64,
}

/// A page of the log.
#[derive(Clone, Debug)]
pub struct LogPage {
    /// What was found.
    pub entries: Vec<Entry>,
    /// Where to go on, where there may be more.
    pub next: Option<LogPosition>,
    /// Where to follow from: every entry that this page could not show comes after it. Some that it shows may come again.
    pub follow_from: LogPosition,
}

/// Who asks, as far as the log is concerned.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    Tenant(Scope),
    /// All tenants or this one, and what belongs to none.
    Operator(Option<TenantId>),
}

impl Engine {
    /// The log of a tenant.
    pub async fn log(&self, scope: &Scope, query: LogQuery) -> Result<LogPage> {
        self.log_page(Reader::Tenant(scope.clone()), query).await
    }

    /// The log of all tenants, or of one, for those who run the deployment; what belongs to no tenant is in it too.
    pub async fn log_of_all(
        &self,
        _operator: &Operator,
        tenant: Option<TenantId>,
        query: LogQuery,
    ) -> Result<LogPage> {
        self.log_page(Reader::Operator(tenant), query).await
    }

    async fn log_page(&self, reader: Reader, query: LogQuery) -> Result<LogPage> {
        if query.limit == 0 || query.limit > PAGE_MAX {
            return Err(Refusal::invalid("limit", format!("must be from 1 to {PAGE_MAX}")).into());
        }
        check(&query.filter)?;
        self.kernel
            .store
            .read("log", (reader, query), |tx, (reader, query)| {
                Box::pin(page(tx, reader, query))
            })
            .await
    }
}

pub(crate) fn check(filter: &LogFilter) -> docket_core::Refused<()> {
    for (path, text) in [("actor", &filter.actor), ("action", &filter.action)] {
        if let Some(text) = text {
            check_text(path, text, TEXT_MAX)?;
        }
    }
    Ok(())
}

/// What the store is asked for. Another tenant's collection is not there.
pub(crate) async fn wanted(tx: &mut Tx, reader: &Reader, filter: &LogFilter) -> Result<Wanted> {
    let collection = match (&filter.collection, reader) {
        (None, _) => None,
        (Some(id), Reader::Tenant(scope)) => Some(collection_of_tenant(tx, scope, id).await?),
        (Some(id), Reader::Operator(tenant)) => {
            let found = collection::get(tx, id.as_str()).await?;
            let own = found.filter(|found| {
                tenant
                    .as_ref()
                    .is_none_or(|tenant| tenant.as_str() == found.tenant_id)
            });
            let own = own.ok_or_else(|| Refusal::not_found("collection", id))?;
            Some(own.key)
        }
    };
    let tenant = match reader {
        Reader::Tenant(scope) => Some(&scope.tenant),
        Reader::Operator(tenant) => tenant.as_ref(),
    };
    Ok(Wanted {
        tenant_id: tenant.map(|tenant| tenant.as_str().to_owned()),
        item: filter.item,
        collection,
        actor: filter.actor.clone(),
        action: filter.action.clone(),
        since: filter.since,
        until: filter.until,
    })
}

async fn page(tx: &mut Tx, reader: &Reader, query: &LogQuery) -> Result<LogPage> {
    let wanted = wanted(tx, reader, &query.filter).await?;
    let follow_from = log::head(tx).await?;
    // The seals know, block by block, up to when the log had come: what lies outside the times asked for is not looked at.
    let mut low = LogPosition::default();
    if let Some(since) = wanted.since {
        low = seal::last_before(tx, since).await?.unwrap_or(low);
    }
    let mut high = LogPosition::LAST;
    if let Some(until) = wanted.until {
        let later = seal::first_from(tx, until.plus_ms(WRITTEN_WITHIN_MS)).await?;
        high = later.map_or(high, |end| LogPosition {
            id: end.id.saturating_add(1),
            ..end
        });
    }
    let (after, until) = match query.order {
        Order::OldestFirst => (query.after.map_or(low, |after| after.max(low)), high),
        Order::NewestFirst => (query.after.map_or(high, |after| after.min(high)), low),
    };
    let piece = Piece {
        after,
        until,
        order: query.order,
        limit: query.limit,
        window: WINDOW,
        bytes: None,
    };
    let read = log::read(tx, &wanted, &piece).await?;
    Ok(LogPage {
        entries: read.entries,
        next: read.next,
        follow_from,
    })
}
