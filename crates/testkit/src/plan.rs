//! How PostgreSQL goes about a statement: the plan that it follows, and what it reads.

use std::collections::BTreeMap;
use std::time::Duration;

use docket_store::all_statements;
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

/// How a statement was run.
#[derive(Debug, Default)]
pub struct Looked {
    /// The indexes that were used.
    pub indexes: Vec<String>,
    /// What should not be there: sorting, and reading a table from end to end.
    pub wrong: Vec<String>,
    /// The most rows that any part has handed on.
    pub rows: f64,
}

fn look(plan: &Value, looked: &mut Looked) {
    let kind = plan["Node Type"].as_str().unwrap_or_default();
    if kind.contains("Sort") {
        looked.wrong.push(kind.to_owned());
    }
    if kind == "Seq Scan" {
        let table = plan["Relation Name"].as_str().unwrap_or_default();
        looked.wrong.push(format!("Seq Scan of {table}"));
    }
    looked
        .indexes
        .extend(plan["Index Name"].as_str().map(str::to_owned));
    let passed_over = plan["Rows Removed by Filter"].as_f64().unwrap_or_default();
    let rows = plan["Actual Rows"].as_f64().unwrap_or_default() + passed_over;
    looked.rows = looked.rows.max(rows);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        look(child, looked);
    }
}

/// Runs the statement of this name, by the plan that is made once for all parameters.
pub async fn run(client: &Client, name: &str, arguments: &str) -> Looked {
    let statement = all_statements()
        .into_iter()
        .find(|known| known.name == name && known.postgres_text().is_some());
    let text = statement
        .and_then(|statement| statement.postgres_text())
        .expect("there is such a statement");
    let prepare = format!("prepare looked_at as {text}");
    client.batch_execute(&prepare).await.expect("it can be prepared");
    let explain = format!("explain (analyze, format json) execute looked_at {arguments}");
    let answer = client.simple_query(&explain).await.expect("it can be run");
    client
        .batch_execute("deallocate looked_at")
        .await
        .expect("it was prepared");
    let plan = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: Value = serde_json::from_str(plan.expect("there is a plan")).expect("it is JSON");
    let mut looked = Looked::default();
    look(&plan[0]["Plan"], &mut looked);
    looked
}

/// What all connections together have read so far: for each table how often from end to end, and how many rows.
pub async fn reads(client: &Client) -> BTreeMap<String, (i64, i64)> {
    // A connection tells what it has read at the latest when it ends.
    let others = "select pid, pg_terminate_backend(pid) from pg_stat_activity
                  where datname = current_database() and pid <> pg_backend_pid()";
    let ended = client.query(others, &[]).await.expect("others can be ended");
    let ended: Vec<i32> = ended.iter().map(|row| row.get(0)).collect();
    let left = "select count(*) from pg_stat_activity where pid = any ($1)";
    let clear = "select pg_stat_clear_snapshot()";
    let patience = Duration::from_secs(30);
    let gone = async {
        loop {
            // Whoever is in a transaction sees what it saw first, until it says this.
            client
                .batch_execute(clear)
                .await
                .expect("what was seen can be forgotten");
            let left = client.query_one(left, &[&ended]).await;
            if left.expect("they can be counted").get::<_, i64>(0) == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(patience, gone)
        .await
        .expect("others end when they are told to");
    let rows = "select t.relname::text, t.seq_scan, t.seq_tup_read + coalesce(sum(i.idx_tup_read), 0)::bigint
                from pg_stat_user_tables t left join pg_stat_user_indexes i on i.relid = t.relid
                group by t.relid, t.relname, t.seq_scan, t.seq_tup_read";
    let rows = client.query(rows, &[]).await.expect("the server counts");
    rows.into_iter()
        .map(|row| (row.get::<_, String>(0), (row.get(1), row.get(2))))
        .collect()
}
