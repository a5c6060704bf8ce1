//! How PostgreSQL goes about insights at a million decided reviews: by an index, in its order, and no further than the piece that is
//! asked for. (SQLite's plans, which do not depend on the size, are looked at with those of all statements.)

use docket_testkit::{Database, World, plan};
use tokio_postgres::NoTls;

/// A million decided reviews and 100,000 that wait, half of them in one collection of a hundred.
const LOAD: &str = "
set synchronous_commit = off;
alter table review set (autovacuum_enabled = false);
insert into review (collection_key, id, item_id, item_version, state, order_key, deadline_ms, deadline_given, policy, confidence, facts,
                    decided_by, decided_at_ms, active_ms, created_at_ms)
  select case when n % 2 = 0 then 1 else 2 + n % 99 end, lpad(to_hex(n), 32, '0')::uuid, lpad(to_hex(n), 32, '0')::uuid, 1,
         case when n % 11 = 0 then 0 else 2 + n % 3 end, n, 1790000000000 + n, false, 1, 90, '[[\"vendor\",90.0]]',
         case when n % 11 > 0 then 'r' || n % 7 end, case when n % 11 > 0 then 1780000000000 + n * 1000::bigint end,
         case when n % 11 > 0 then 1000 end, 1780000000000
  from generate_series(1, 1100000) n;
analyze review;";

/// What each statement is called with, by the index that has to serve it. The pieces lie in the midst of what is there.
const CALLS: [(&str, &str, &str); 4] = [
    (
        "decided_plain",
        "review_decided",
        "(1, 1780500000000, 0, 1790000000000, 2000)",
    ),
    (
        "decided_whole",
        "review_decided",
        "(1, 1780500000000, 0, 1790000000000, 500)",
    ),
    (
        "decided_count",
        "review_decided",
        "(1, 1780500000000, 1780500500000, 1000000)",
    ),
    (
        "decided_pending",
        "review_deadline",
        "(1, 1790000500000, 0, 5000)",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_million_decisions_a_piece_is_read_by_its_index() {
    let world = World::new(Database::postgres().await).await;
    let url = world.database.url.clone().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(LOAD).await.unwrap();
    client
        .batch_execute("set jit = off; set plan_cache_mode = force_generic_plan")
        .await
        .unwrap();
    for (name, index, arguments) in CALLS {
        let looked = plan::run(&client, name, arguments).await;
        assert_eq!(looked.wrong, [""; 0], "{name}");
        assert!(
            looked.indexes.iter().any(|used| used == index),
            "{name} uses {:?}",
            looked.indexes
        );
        assert!(
            (1.0..=5_000.0).contains(&looked.rows),
            "{name} reads {} rows",
            looked.rows
        );
    }
}
