//! How PostgreSQL goes about the outbox when it is long: by an index, and no further than what is asked for. (SQLite's plans, which do not
//! depend on the size, are looked at with those of all statements.)

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_engine::background::Intervals;
use docket_testkit::outbox::HOOK;
use docket_testkit::scripted::Play;
use docket_testkit::{Database, World, plan};
use tokio_postgres::{Client, NoTls};

/// How many deliveries wait for one host.
const BACKLOG: i64 = 100_000;

/// 300,000 notifications of one delivery each: of three one waits for one host and is due, one was sent and one failed; a thousand are held.
const LOAD: &str = "
set synchronous_commit = off;
alter table delivery set (autovacuum_enabled = false); alter table notification set (autovacuum_enabled = false);
insert into notification (id, owner, idempotency_key, request_hash, changelist_id, review_version, subject, body, actor, created_at_ms,
                          kept_since_ms)
  select lpad(to_hex(n), 32, '0')::uuid, '', 'k' || n, sha256('x'), 'CL-' || n, 1, 'Told', 'It is good.', 'load', 1780000000000 + n,
         1780000000000 + n
  from generate_series(1, 300000) n;
insert into delivery (id, key, notification_id, owner, recipient, required, channel, destination, token, headers, body, state, due_ms,
                      attempts, notified_at_ms, evidence_at_ms, ended_at_ms, created_at_ms)
  select id, 'dlv_' || lpad(to_hex(n), 40, '0'), id, '', 'webhook:https://receiver.example/hook/' || n, true, 'webhook',
         'webhook:receiver.example', 'dlv_' || lpad(to_hex(n), 40, '0'), '[]', 'x',
         case when n % 300 = 0 then 3 when n % 3 = 0 then 4 when n % 3 = 1 then 5 else 0 end,
         case when n % 3 = 2 then at end, 1, case when n % 3 = 0 and n % 300 > 0 then at end,
         case when n % 3 = 0 and n % 300 > 0 then at end, case when n % 3 < 2 and n % 300 > 0 then at end, at
  from (select id, row_number() over (order by id) as n, created_at_ms as at from notification) x;
insert into delivery (id, key, notification_id, owner, recipient, required, channel, destination, token, headers, body, state, due_ms,
                      created_at_ms)
  select ('f' || lpad(to_hex(n), 31, '0'))::uuid, 'later-' || n, ('f' || lpad(to_hex(n), 31, '0'))::uuid, '', 'webhook:https://h' || n || '.example', true,
         'webhook', 'webhook:h' || n || '.example', 'dlv_' || lpad(to_hex(n), 40, 'f'), '[]', 'x', 0, 9000000000000, 1780000000000
  from generate_series(1, 500) n;
analyze delivery; analyze notification;";

/// What each statement is called with, the index that has to serve it, and the most rows that it may go over.
const CALLS: [(&str, &str, &str, f64); 7] = [
    ("delivery_unsure", "delivery_for_people", "(100000)", 1_000.0),
    (
        "delivery_waiting",
        "delivery_due",
        "(1790000000000, 1000)",
        1_000.0,
    ),
    (
        "delivery_horizon",
        "delivery_due",
        "(1790000000000, 1024)",
        1_025.0,
    ),
    (
        "delivery_hosts",
        "delivery_host",
        "('', 1024, 1790000000000)",
        502.0,
    ),
    (
        "delivery_take_of_host",
        "delivery_host",
        "('webhook:receiver.example', 1790000000000, 16)",
        16.0,
    ),
    (
        "notifications_kept",
        "notification_kept",
        "(1790000000000, 500)",
        500.0,
    ),
    (
        "delivery_list_for_people",
        "delivery_for_people",
        "(3, 'ffffffff-ffff-ffff-ffff-ffffffffffff', '', 0, '', 100)",
        100.0,
    ),
];

async fn load() -> (World, Client) {
    let world = World::new(Database::postgres().await).await;
    let url = world.database.url.clone().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(LOAD).await.unwrap();
    (world, client)
}

async fn assert_plans(client: &Client) {
    let once = "set jit = off; set plan_cache_mode = force_generic_plan";
    client.batch_execute(once).await.unwrap();
    for (name, index, arguments, most) in CALLS {
        let mut looked = plan::run(client, name, arguments).await;
        // Nobody is stopped: that table is empty.
        looked
            .wrong
            .retain(|wrong| wrong != "Seq Scan of stopped_recipient");
        assert_eq!(looked.wrong, [""; 0], "{name}");
        assert!(
            looked.indexes.iter().any(|used| used == index),
            "{name} uses {:?}",
            looked.indexes
        );
        assert!(
            (1.0..=most).contains(&looked.rows),
            "{name} goes over {} rows",
            looked.rows
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_outbox_is_gone_over_by_its_indexes_and_behind_a_hosts_backlog_others_are_found() {
    let (world, client) = load().await;
    assert_plans(&client).await;
    let other = world
        .deliver("CL-other", "webhook:https://other.example/hook")
        .await;
    let before = plan::reads(&client).await["delivery"];
    // As many as may be on their way to the host are, and do not end.
    world.providers.webhook.plays(vec![Play::AcceptLater; 16]);
    let mut background = world.engine.start_background(Intervals::default()).await.unwrap();
    while world.delivery_state(other).await != "sent" {
        tokio::task::yield_now().await;
    }
    background.stop_sending();
    (0..16).for_each(|_| world.providers.webhook.go_on());
    background.sent().await;
    background.stop().await;
    assert_eq!(
        world.providers.webhook.told(&format!("{HOOK}/2")),
        1,
        "the oldest first"
    );
    let after = plan::reads(&client).await["delivery"];
    let (scans, rows) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(scans, 0, "the outbox is not read from end to end");
    assert!((100..BACKLOG / 2).contains(&rows), "{rows} rows were read");
}
