//! How the databases go about the statements: by their indexes, at a million jobs as at ten. On PostgreSQL the plans are looked at,
//! and then the engine works while the server counts what it reads; on SQLite the plans alone tell, as they do not depend on the
//! size.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use docket_core::id::ItemId;
use docket_core::job::Failure;
use docket_core::pipeline::Pipeline;
use docket_engine::{Claim, ClaimedJob, Complete, Engine, Fail, Heartbeat, LogPosition, Release, Submit};
use docket_store::all_statements;
use docket_testkit::{Database, World, WorldConfig, names, plan};
use serde_json::Value;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// The tables that grow.
const LARGE: [&str; 5] = ["job", "item", "lane", "hold", "log"];

/// Statements that have to look at everything, and why that is right.
const LOOK_AT_ALL: [(&str, &str); 12] = [
    ("doctor_", "the doctor recounts everything; that is its task"),
    (
        "items_finished",
        "forgetting goes over all items, and only where it is configured",
    ),
    (
        "hold_silent",
        "only on demand, over what is held, never over what waits",
    ),
    ("holes_sweep", "goes over the holes, which it removes"),
    ("lane_set_strict", "changes every lane of the pipeline"),
    ("log_stream", "reads the log from a position on"),
    (
        "depth_",
        "sums over the lanes, once in some seconds at most, for the metrics",
    ),
    (
        "review_silent",
        "only on demand, over what is in hands, never over what waits",
    ),
    (
        "reviewer_lock_of_tenant",
        "reviewers are people; there are few of them",
    ),
    ("reviewer_of_tenant", "likewise"),
    (
        "delivery_without_evidence",
        "its index has only those that somebody has to look into",
    ),
    ("key_any", "asks whether there is any key, and stops at the first"),
];

fn looks_at_all(name: &str) -> bool {
    LOOK_AT_ALL.iter().any(|(prefix, _)| name.starts_with(prefix))
}

fn is_hot(name: &str) -> bool {
    ["claim", "settle", "heartbeat", "submit"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// What the store sets for the connections of its tuned operations.
const HOT: &str = "set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
                   set enable_bitmapscan = off; set enable_material = off; set random_page_cost = 0.1";

/// A million jobs in a thousand lanes: of each thousand 20 done, 5 running, 2 that wait, 2 put back, the rest in the tail.
const LOAD: &str = "
set synchronous_commit = off;
alter table lane set (autovacuum_enabled = false); alter table hold set (autovacuum_enabled = false);
alter table job set (autovacuum_enabled = false); alter table item set (autovacuum_enabled = false);
alter table log set (autovacuum_enabled = false);
insert into tenant (id, tier, uploads_per_hour, concurrent_jobs, created_at_ms, updated_at_ms)
  select 't' || k, 'free', -1, 50, 0, 0 from generate_series(1, 1000) k;
insert into lane_of (tenant_id, pipeline_key, lane_key)
  select 't' || k, (select min(pipeline_key) from pipeline), k from generate_series(1, 1000) k;
insert into lane (lane_key, pipeline_key, lim, active, queued, waiting, next_seq, head_seq, served)
  select k, (select min(pipeline_key) from pipeline), 50, 5, 973, 2, 1001, 30, k from generate_series(1, 1000) k;
insert into collection (collection_key, id, tenant_id, pipeline_key, lane_key, to_review, settings, created_at_ms, updated_at_ms)
  select k, 't' || k, 't' || k, (select min(pipeline_key) from pipeline), k, false, '{}', 0, 0 from generate_series(1, 1000) k;
insert into item (collection_key, id, external_id, content_hash, is_file, size, payload, to_review, submitted_by, lane_key,
                  job_seq, created_at_ms, updated_at_ms)
  select k, (lpad(to_hex(1790000000000), 12, '0') || '7000' ||
             to_hex((-9223372036854775808)::bigint + k::bigint * 4398046511104 + n))::uuid,
         'e' || n, sha256('e'), false, 9, '{\"a\":1}', false, 'load', k, n, 1790000000000, 1790000000000
  from generate_series(1, 1000) k, generate_series(1, 1000) n;
insert into job (lane_key, seq, collection_key, item_id, item_version, state, token, started_at_ms, finished_at_ms, created_at_ms)
  select lane_key, job_seq, collection_key, id, 1, case when job_seq <= 20 then 2 else 0 end,
         case when job_seq < 30 then 1 else 0 end, case when job_seq < 30 then 1790000000000 end,
         case when job_seq <= 20 then 1790000001000 end, 1790000000000
  from item order by lane_key, job_seq;
insert into hold (lane_key, seq, kind, token, retry_count, worker, until_ms, lease_ms, started_at_ms, pipeline_version, to_review)
  select k, n, case when n <= 25 then 1 when n <= 27 then 2 else 3 end, 1, 0, 'load', 1790000600000 + n, 600000, 1790000000000,
         1, false
  from generate_series(1, 1000) k, generate_series(21, 29) n;
insert into log (at_ms, tenant_id, item_id, lane_key, seq, action, actor)
  select created_at_ms, 't' || lane_key, id, lane_key, job_seq, 'item.submitted', 'load' from item where job_seq <= 200;
analyze;";

/// The item that stands at a place of a loaded lane.
fn item(lane: u64, seq: u64) -> ItemId {
    let low = (1_u64 << 63) + (lane << 42) + seq;
    let hex = format!("{:012x}7000{low:016x}", 1_790_000_000_000_u64);
    let groups = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    groups.join("-").parse().unwrap()
}

struct Large {
    world: World,
    client: Client,
}

impl Large {
    async fn load() -> Self {
        let world = World::new(Database::postgres().await).await;
        world.pipeline("work", Pipeline::default()).await;
        let url = world.database.url.clone().unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(LOAD).await.unwrap();
        Self { world, client }
    }

    /// The plan of a statement as it is made once for all parameters.
    async fn plan(&self, text: &str) -> Value {
        self.client
            .batch_execute(&format!("prepare looked_at as {text}"))
            .await
            .unwrap();
        let count =
            "select cardinality(parameter_types) from pg_prepared_statements where name = 'looked_at'";
        let params: i32 = self.client.query_one(count, &[]).await.unwrap().get(0);
        let nulls = vec!["null"; usize::try_from(params).unwrap()].join(", ");
        let arguments = if nulls.is_empty() {
            nulls
        } else {
            format!("({nulls})")
        };
        let explain = format!("explain (format json) execute looked_at {arguments}");
        let answer = self.client.simple_query(&explain).await.unwrap();
        self.client.batch_execute("deallocate looked_at").await.unwrap();
        let text = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        serde_json::from_str(text.unwrap()).unwrap()
    }

    /// What was read so far of each large table.
    async fn reads(&self) -> BTreeMap<String, (i64, i64)> {
        let mut reads = plan::reads(&self.client).await;
        reads.retain(|table, _| LARGE.contains(&table.as_str()));
        reads
    }

    /// An operation reads no large table from end to end, and of none more than so many rows.
    async fn assert_reads<T>(&self, what: &str, most: i64, operation: impl AsyncFnOnce(Engine) -> T) -> T {
        let before = self.reads().await;
        let engine = self.world.another_engine(&WorldConfig::default()).await;
        let made = operation(engine).await;
        for (table, (scans, rows)) in self.reads().await {
            let (scans, rows) = (scans - before[&table].0, rows - before[&table].1);
            assert_eq!(scans, 0, "{what} reads {table} from end to end");
            assert!(rows <= most, "{what} reads {rows} rows of {table}");
        }
        made
    }
}

fn collect_scans(plan: &Value, scans: &mut Vec<String>) {
    if let (Some("Seq Scan"), Some(table)) = (plan["Node Type"].as_str(), plan["Relation Name"].as_str()) {
        scans.push(table.to_owned());
    }
    for child in plan["Plans"].as_array().into_iter().flatten() {
        collect_scans(child, scans);
    }
}

async fn assert_plans(large: &Large) {
    large
        .client
        .batch_execute("set jit = off; set plan_cache_mode = force_generic_plan")
        .await
        .unwrap();
    let (mut found, mut looked_at) = (Vec::new(), [0, 0]);
    for hot in [false, true] {
        if hot {
            large.client.batch_execute(HOT).await.unwrap();
        }
        for statement in all_statements() {
            let Some(text) = statement.postgres_text() else {
                continue;
            };
            if is_hot(statement.name) != hot || looks_at_all(statement.name) {
                continue;
            }
            looked_at[usize::from(hot)] += 1;
            let mut scans = Vec::new();
            collect_scans(&large.plan(text).await[0]["Plan"], &mut scans);
            scans.retain(|table| LARGE.contains(&table.as_str()));
            if !scans.is_empty() {
                found.push(format!(
                    "{} reads {} from end to end",
                    statement.name,
                    scans.join(" and ")
                ));
            }
        }
    }
    large.client.batch_execute("reset all").await.unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(looked_at[0] > 50 && looked_at[1] >= 4, "{looked_at:?} statements");
}

fn wish(limit: u32) -> Claim {
    Claim {
        pipeline: names::pipeline("work"),
        worker: names::worker("w1"),
        limit,
        lease_ms: None,
        wait_ms: 0,
    }
}

/// The way of 50 jobs through a database with a million.
async fn assert_batches_read_little(large: &Large) {
    let claimed = large
        .assert_reads("a claim of 50", 300, async |engine| {
            engine.claim(wish(50)).await.unwrap()
        })
        .await;
    assert_eq!(claimed.len(), 50);
    let beats = |jobs: &[ClaimedJob]| -> Vec<_> {
        jobs.iter()
            .map(|job| Heartbeat {
                job: job.id,
                token: job.token,
                lease_ms: None,
            })
            .collect()
    };
    let beaten = large.assert_reads("50 heartbeats", 200, async |engine| {
        engine.heartbeat(beats(&claimed)).await.unwrap()
    });
    assert!(beaten.await.iter().all(Result::is_ok));
    let completed = large.assert_reads("30 completions", 300, async |engine| {
        engine
            .complete(
                claimed[..30]
                    .iter()
                    .map(|job| Complete::new(job.id, job.token))
                    .collect(),
            )
            .await
            .unwrap()
    });
    assert!(completed.await.iter().all(Result::is_ok));
    assert_put_back_reads_little(large, &claimed[30..40], &claimed[40..]).await;
    let submitted = large.assert_reads("a submission of 50", 300, async |engine| {
        let items = (0..50).map(|n| World::item(&format!("new-{n}"))).collect();
        let call = Submit {
            collection: names::collection("t7"),
            items,
            idempotency_key: None,
        };
        engine.submit(&World::scope("t7"), call).await.unwrap()
    });
    assert!(submitted.await.results.iter().all(Result::is_ok));
    let again = large
        .assert_reads("a claim of one", 60, async |engine| {
            engine.claim(wish(1)).await.unwrap()
        })
        .await;
    assert_eq!(again.len(), 1);
}

async fn assert_put_back_reads_little(large: &Large, failed: &[ClaimedJob], released: &[ClaimedJob]) {
    let failure = Failure {
        error: "no".into(),
        step: None,
        retryable: true,
    };
    let results = large.assert_reads("10 failures", 200, async |engine| {
        let fail = |job: &ClaimedJob| Fail {
            job: job.id,
            token: job.token,
            failure: failure.clone(),
        };
        engine.fail(failed.iter().map(fail).collect()).await.unwrap()
    });
    assert!(results.await.iter().all(Result::is_ok));
    let results = large.assert_reads("10 releases", 200, async |engine| {
        let release = |job: &ClaimedJob| Release {
            job: job.id,
            token: job.token,
        };
        engine
            .release(released.iter().map(release).collect())
            .await
            .unwrap()
    });
    assert!(results.await.iter().all(Result::is_ok));
}

async fn assert_questions_read_little(large: &Large) {
    let (scope, deep) = (World::scope("t500"), item(500, 990));
    let position = large.assert_reads("a position", 120, async |engine| {
        engine.position(&scope, deep).await.unwrap()
    });
    assert_eq!(position.await.ahead, 960 + 4, "without looking at them");
    let view = large
        .assert_reads("an item", 120, async |engine| {
            engine.item(&scope, deep).await.unwrap()
        })
        .await;
    assert_eq!(view.item.external_id.as_deref(), Some("e990"));
    large
        .assert_reads("an explanation", 120, async |engine| {
            engine.explain(&scope, deep).await.unwrap()
        })
        .await;
    let log = large.assert_reads("a story", 120, async |engine| {
        engine
            .timeline(&scope, item(500, 150), LogPosition::default(), 50)
            .await
            .unwrap()
    });
    assert_eq!(log.await.len(), 1);
    large
        .assert_reads("a cancellation", 120, async |engine| {
            engine.cancel(&scope, deep).await.unwrap()
        })
        .await;
    large
        .assert_reads("processing again", 120, async |engine| {
            engine.reprocess(&scope, deep).await.unwrap();
        })
        .await;
    // Nothing is due: the clock of the world stands before all leases end.
    let reaped = large.assert_reads("a look of the reaper", 20, async |engine| {
        engine.reap(None).await.unwrap()
    });
    assert_eq!(reaped.await, Default::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_million_jobs_postgres_follows_the_indexes() {
    let large = Large::load().await;
    assert_plans(&large).await;
    let before = large.reads().await;
    assert_batches_read_little(&large).await;
    let counted = large.reads().await["job"].1 - before["job"].1;
    assert!(counted > 100, "the server counts what is read: {counted} jobs");
    assert_questions_read_little(&large).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_follows_the_indexes() {
    let world = World::new(Database::sqlite()).await;
    let file = world.database.data_folder().join("docket.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    // What is short, or made by the statement itself, may be read as a whole. A plan names a table by its alias, where it has one.
    let small = [
        "CONSTANT ROW",
        "json_each",
        "x",
        "pause",
        "tier",
        "tenant",
        "pipeline",
        "worker",
        "intake_slot",
        "lane_turn",
        "delta",
        "review_rekey",
    ];
    let mut found = Vec::new();
    for statement in all_statements() {
        let Some(text) = statement.sqlite_text() else {
            continue;
        };
        if looks_at_all(statement.name) {
            continue;
        }
        let mut plan = connection.prepare(&format!("explain query plan {text}")).unwrap();
        let lines = plan
            .raw_query()
            .mapped(|row| row.get::<_, String>(3))
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        for line in lines {
            let scanned = line.strip_prefix("SCAN ");
            if scanned.is_some_and(|what| {
                !small
                    .iter()
                    .any(|small| what == *small || what.starts_with(&format!("{small} ")))
            }) {
                found.push(format!("{}: {line}", statement.name));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
