//! The log: pages of it, and the whole as a stream.

use docket_wire::Page;
use docket_wire::log::LogEntry;

use crate::client::{Call, Client};
use crate::content::Download;
use crate::error::Result;

/// Which entries.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Of one tenant; for those who may see several.
    pub tenant_id: Option<String>,
    /// About items of one collection.
    pub collection_id: Option<String>,
    /// About one item.
    pub item_id: Option<String>,
    /// By one actor.
    pub actor: Option<String>,
    /// Of one action.
    pub action: Option<String>,
    /// Not before this time.
    pub since: Option<docket_wire::Time>,
    /// Before this time.
    pub until: Option<docket_wire::Time>,
    /// At most so many.
    pub limit: Option<u64>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// In what form an export comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// JSON lines, with the seals.
    #[default]
    Jsonl,
    /// Comma-separated values.
    Csv,
}

impl ExportFormat {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }
}

impl AuditFilter {
    fn on(&self, call: Call) -> Call {
        call.query("tenantId", self.tenant_id.as_deref())
            .query("collectionId", self.collection_id.as_deref())
            .query("itemId", self.item_id.as_deref())
            .query("actor", self.actor.as_deref())
            .query("action", self.action.as_deref())
            .query("since", self.since)
            .query("until", self.until)
            .query("limit", self.limit)
            .query("cursor", self.cursor.as_deref())
    }
}

impl Client {
    /// A page of the log.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<Page<LogEntry>> {
        self.ask(filter.on(self.get(&["api", "v1", "audit"]))).await
    }

    /// The log as a stream, for a file.
    pub async fn audit_export(&self, filter: &AuditFilter, format: ExportFormat) -> Result<Download> {
        let call = self
            .get(&["api", "v1", "audit", "export"])
            .query("format", Some(format.as_str()));
        self.open(filter.on(call)).await
    }
}
