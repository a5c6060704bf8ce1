//! The log as a file: lines with their seals, to be proved offline, or a table. In flat memory, however long it is.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use docket_core::name::TenantId;
use docket_engine::{AuditExport, Engine, Entry, Error, LogOrder, LogPosition, LogQuery, Result};
use docket_wire::schema;
use docket_wire::time::Time;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::log::narrowed;
use crate::caller::{As, Reach, Seeing};
use crate::error::ApiResult;
use crate::extract::Query;
use crate::layer::Streamed;
use crate::openapi::Missing;
use crate::state::AppState;

/// Entries that are read at once for a table.
const PIECE: u64 = 200;
const COLUMNS: &str = "id,at,tenantId,itemId,jobId,action,actor,field,old,new,details\r\n";

/// How an export is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// JSON, a line each, with the seals that prove it.
    #[default]
    Jsonl,
    /// A table for people; it proves nothing.
    Csv,
}

/// What to export, and how.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExportQuery {
    /// `jsonl` where nothing is said.
    #[param(inline)]
    format: Option<Format>,
    /// Of this tenant, for those who act for the whole deployment; those who act for a tenant export its own.
    #[param(value_type = Option<schema::Name>)]
    tenant_id: Option<String>,
}

/// Export the log.
///
/// As `jsonl` it carries the seals, and `docket audit verify` proves offline that nothing is missing, added, changed or reordered;
/// other tenants' entries are hidden in a tenant's export. As `csv` it is a table for people; a value that a spreadsheet would take
/// for a formula is preceded by an apostrophe.
#[utoipa::path(
    get, path = "/api/v1/audit/export", tag = "Log", params(ExportQuery),
    responses(
        (status = 200, description = "The export.", content(
            (String = "application/x-ndjson"), (String = "text/csv")
        )),
        Missing
    )
)]
pub(crate) async fn audit_export(
    State(state): State<AppState>,
    caller: As<Seeing>,
    Query(query): Query<ExportQuery>,
) -> ApiResult<Response> {
    let (reach, named) = narrowed(&caller, query.tenant_id)?;
    let reach = match (reach, named) {
        (Reach::Deployment(operator), Some(tenant)) => {
            state.engine().tenant(&operator, &tenant).await?;
            let actor = operator.actor;
            Reach::Tenant(docket_core::scope::Scope { tenant, actor })
        }
        (reach, _) => reach,
    };
    let (kind, name, body) = match query.format.unwrap_or_default() {
        Format::Jsonl => {
            let export = match &reach {
                Reach::Tenant(scope) => state.engine().audit_export_of(scope).await?,
                Reach::Deployment(operator) => state.engine().audit_export(operator).await?,
            };
            ("application/x-ndjson", "audit.jsonl", lines(export))
        }
        Format::Csv => (
            "text/csv; charset=utf-8",
            "audit.csv",
            table(state.engine().clone(), reach),
        ),
    };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let disposition = crate::disposition::write("attachment", Some(name));
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response.extensions_mut().insert(Streamed);
    Ok(response)
}

/// A fault in the midst of an export cuts it off: what is there cannot be taken for the whole.
pub(super) fn told(error: Error) -> Error {
    tracing::error!(error = &error as &dyn std::error::Error, "an export was cut off");
    error
}

fn lines(export: AuditExport) -> Body {
    Body::from_stream(futures_util::stream::try_unfold(export, async |mut export| {
        let next = export.next().await.map_err(told)?;
        Ok::<_, Error>(next.map(|lines| (lines, export)))
    }))
}

enum Place {
    Begin,
    After(Option<LogPosition>),
    End,
}

fn table(engine: Engine, reach: Reach) -> Body {
    let begin = (engine, reach, Place::Begin);
    Body::from_stream(futures_util::stream::try_unfold(
        begin,
        async |(engine, reach, place)| {
            let after = match place {
                Place::Begin => return Ok(Some((COLUMNS.to_owned(), (engine, reach, Place::After(None))))),
                Place::After(after) => after,
                Place::End => return Ok(None),
            };
            let (text, next) = piece(&engine, &reach, after).await.map_err(told)?;
            let place = next.map_or(Place::End, |next| Place::After(Some(next)));
            Ok::<_, Error>(Some((text, (engine, reach, place))))
        },
    ))
}

async fn piece(
    engine: &Engine,
    reach: &Reach,
    after: Option<LogPosition>,
) -> Result<(String, Option<LogPosition>)> {
    let query = LogQuery {
        order: LogOrder::OldestFirst,
        after,
        limit: PIECE,
        ..LogQuery::default()
    };
    let page = match reach {
        Reach::Tenant(scope) => engine.log(scope, query).await?,
        Reach::Deployment(operator) => engine.log_of_all(operator, None::<TenantId>, query).await?,
    };
    Ok((page.entries.iter().map(row).collect(), page.next))
}

fn row(entry: &Entry) -> String {
    let id = entry.position.to_string();
    let at = Time::from(entry.at).to_string();
    let (item, job) = (
        entry.item.map(|id| id.to_string()),
        entry.job.map(|id| id.to_string()),
    );
    let cells = [
        Some(&id),
        Some(&at),
        entry.tenant_id.as_ref(),
        item.as_ref(),
        job.as_ref(),
        Some(&entry.action),
        Some(&entry.actor),
        entry.field.as_ref(),
        entry.old.as_ref(),
        entry.new.as_ref(),
        entry.details.as_ref(),
    ];
    let cells: Vec<_> = cells
        .into_iter()
        .map(|text| cell(text.map_or("", String::as_str)))
        .collect();
    cells.join(",") + "\r\n"
}

/// A cell as RFC 4180 writes it, harmless in a spreadsheet.
fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '@', '\t', '\r'])
        || (text.starts_with('-') && text.parse::<f64>().is_err());
    let mark = if formula { "'" } else { "" };
    match text.contains([',', '"', '\r', '\n']) || formula {
        true => format!("\"{mark}{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, written) in [
            ("plain", "plain"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("{\"a\":1}", "\"{\"\"a\"\":1}\""),
            ("-5.5", "-5.5"),
            ("=1+1", "\"'=1+1\""),
            ("-cmd", "\"'-cmd\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            assert_eq!(cell(text), written, "{text}");
        }
    }
}
