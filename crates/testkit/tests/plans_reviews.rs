//! How PostgreSQL picks reviews when many are pending and people have corrected much: by the index of the strategy, and no further than what
//! is asked for. (SQLite's plans, which do not depend on the size, are looked at with those of all statements.)

use docket_testkit::{Database, World, plan};
use tokio_postgres::NoTls;

/// 30,000 items with a job and a pending review each in one collection, and 150,000 corrections of others.
const LOAD: &str = "
set synchronous_commit = off;
insert into item (collection_key, id, external_id, content_hash, is_file, size, payload, to_review, submitted_by, lane_key,
                  job_seq, created_at_ms, updated_at_ms)
  select 1, lpad(to_hex(n), 32, '0')::uuid, 'e' || n, sha256('e'), false, 9, '{}', true, 'load', 1, n, 1790000000000, 1790000000000
  from generate_series(1, 30000) n;
insert into job (lane_key, seq, collection_key, item_id, item_version, state, token, created_at_ms)
  select 1, job_seq, 1, id, 1, 2, 1, 1790000000000 from item;
insert into review (collection_key, id, item_id, item_version, order_key, deadline_ms, deadline_given, policy, created_at_ms)
  select 1, id, id, 1, job_seq, 1790000000000 + job_seq, false, 1, 1790000000000 from item;
insert into correction (collection_key, item_id, name, value, locked, corrected_by, corrected_at_ms)
  select 1 + n % 50, ('f' || lpad(to_hex(n), 31, '0'))::uuid, 'vendor', '\"x\"', true, 'ann', 1790000000000
  from generate_series(1, 150000) n;
analyze;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pick_goes_no_further_than_what_is_asked_for_however_much_was_corrected() {
    let world = World::new(Database::postgres().await).await;
    let url = world.database.url.clone().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(LOAD).await.unwrap();
    // As the store has it for its tuned operations.
    let hot = "set jit = off; set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_hashjoin = off;
               set enable_mergejoin = off; set enable_bitmapscan = off; set enable_material = off; set random_page_cost = 0.1";
    client.batch_execute(hot).await.unwrap();
    for strategy in ["fifo", "priority", "deadline"] {
        let name = format!("review_pick_{strategy}");
        let looked = plan::run(&client, &name, "(1, array['ann', 'bob'], 10)").await;
        assert_eq!(looked.wrong, [""; 0], "{name}");
        let index = format!("review_{strategy}");
        assert!(
            looked.indexes.contains(&index),
            "{name} uses {:?}",
            looked.indexes
        );
        assert!(
            (10.0..=20.0).contains(&looked.rows),
            "{name} goes over {} rows",
            looked.rows
        );
    }
}
