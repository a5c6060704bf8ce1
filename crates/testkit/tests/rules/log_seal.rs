//! Sealing: every entry in exactly one block, none skipped, whoever writes and seals at the same time (rule L2).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docket_core::seal::{FaultKind, Report};
use docket_engine::{AuditFault, Engine};
use docket_testkit::{Database, Plain, World, WorldConfig, names, on_both};

async fn verify(engine: &Engine) -> Result<Report, AuditFault> {
    engine.audit_verify(&World::operator(), |_, _| {}).await.unwrap()
}

/// Some entries in several blocks; how many.
async fn three_blocks(world: &World) -> u64 {
    world.lanes(2, &["acme", "bolt"]).await;
    let mut sealed = world.seal_all().await;
    for tenant in ["acme", "bolt"] {
        world.submit_many(tenant, tenant, 6).await;
        sealed += world.seal_all().await;
    }
    sealed
}

async fn behind_dockets_back(world: &World, sql: &str) {
    Plain::of(&world.database).execute_unguarded(sql).await;
}

/// The position of the entry with this index, in the order of the log.
async fn position(world: &World, index: usize) -> (String, String) {
    let rows = Plain::of(&world.database)
        .rows("select tx, id from log order by tx, id")
        .await;
    let row = &rows[index];
    (
        format!("tx = {} and id = {}", row[0], row[1]),
        format!("{}-{}", row[0], row[1]),
    )
}

on_both! {
    async fn every_entry_is_sealed_once_and_the_seals_are_chained(world: &World) {
        let sealed = three_blocks(world).await;
        assert_eq!(i64::try_from(sealed).unwrap(), world.number("select count(*) from log").await);
        assert_eq!(world.engine.seal().await.unwrap(), 0, "nothing is sealed twice");
        let mut heard = Vec::new();
        let report = world.engine.audit_verify(&World::operator(), |done, all| heard.push((done, all))).await;
        let report = report.unwrap().unwrap();
        assert_eq!((report.blocks, report.entries, report.unsealed), (3, sealed, 0));
        assert_eq!((heard.len(), heard[2]), (3, (sealed, sealed)));
        world.submit_one("acme", "later").await;
        assert!(verify(&world.engine).await.unwrap().unsealed <= 1);
    }

    async fn the_sealer_waits_for_more_but_not_for_long(world: &World) {
        world.lanes(2, &["acme"]).await;
        let seals = "select count(*) from seal";
        assert_eq!(world.engine.sealer_run_once().await.unwrap(), None);
        assert_eq!(world.number(seals).await, 0, "what is there may still have company");
        world.pass_ms(6_000);
        while world.number(seals).await == 0 {
            // Another test's transaction may hold it up for a moment.
            world.engine.sealer_run_once().await.unwrap();
        }
        world.seal_all().await;
        let before = world.number(seals).await;
        world.submit_many("acme", "a", 4_500).await;
        while world.engine.sealer_run_once().await.unwrap().is_none() {}
        assert_eq!(world.number(seals).await, before + 1, "a full block waits for nothing");
        assert_eq!(world.number("select entries from seal order by number desc limit 1").await, 4_096);
        verify(&world.engine).await.unwrap();
    }

    async fn seals_can_be_neither_changed_nor_deleted(world: &World) {
        three_blocks(world).await;
        for sql in ["update seal set entries = 1", "delete from seal where number = 3"] {
            let said = world.execute(sql).await.unwrap_err();
            assert!(said.contains("append-only"), "{sql}: {said}");
        }
        verify(&world.engine).await.unwrap();
    }

    async fn an_entry_changed_behind_dockets_back_is_named(world: &World) {
        three_blocks(world).await;
        let (this, name) = position(world, 9).await;
        behind_dockets_back(world, &format!("update log set actor = 'nobody' where {this}")).await;
        let fault = verify(&world.engine).await.unwrap_err();
        assert_eq!((fault.kind, fault.position.unwrap().to_string()), (FaultKind::Changed, name.clone()));
        assert!(fault.text.contains(&name) && fault.text.contains("was changed"), "{}", fault.text);
    }

    async fn an_entry_deleted_behind_dockets_back_is_named(world: &World) {
        three_blocks(world).await;
        let ((this, _), (_, before)) = (position(world, 9).await, position(world, 8).await);
        behind_dockets_back(world, &format!("delete from log where {this}")).await;
        let fault = verify(&world.engine).await.unwrap_err();
        assert_eq!((fault.kind, fault.position.unwrap().to_string()), (FaultKind::Missing, before));
        assert!(fault.text.contains("entry 10,"), "{}", fault.text);
    }

    async fn an_entry_added_behind_dockets_back_is_named(world: &World) {
        three_blocks(world).await;
        let (this, _) = position(world, 9).await;
        let (columns, with_number) = ("at_ms, tenant_id, action, actor", Plain::of(&world.database).with_number());
        // A gap is made for it: an id that nobody has.
        let sql = format!("insert into log (tx, id, {columns}) {with_number} select tx, -5, {columns} from log where {this}");
        behind_dockets_back(world, &sql).await;
        let fault = verify(&world.engine).await.unwrap_err();
        assert_eq!((fault.kind, fault.position.unwrap().id), (FaultKind::Added, -5), "{}", fault.text);
    }

    async fn a_seal_changed_behind_dockets_back_is_named(world: &World) {
        three_blocks(world).await;
        behind_dockets_back(world, "update seal set sealed_at_ms = sealed_at_ms + 1 where number = 2").await;
        let fault = verify(&world.engine).await.unwrap_err();
        assert_eq!((fault.kind, fault.block), (FaultKind::Seal, 2), "{}", fault.text);
    }

    async fn a_seal_deleted_behind_dockets_back_is_named(world: &World) {
        three_blocks(world).await;
        behind_dockets_back(world, "delete from seal where number = 2").await;
        let fault = verify(&world.engine).await.unwrap_err();
        assert!(fault.text.contains("block 2 is missing"), "{}", fault.text);
    }
}

/// Several sealers, several writers, and transactions that stay open while others are long done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealing_under_load_skips_no_open_transaction() {
    let settings = WorldConfig {
        runners: 4,
        real_time: true,
        ..WorldConfig::default()
    };
    let world = World::with(Database::postgres().await, &settings).await;
    world.lanes(20, &["acme", "bolt"]).await;
    let engines = [
        world.engine.clone(),
        world.another_engine(&settings).await,
        world.another_engine(&settings).await,
    ];
    let done = Arc::new(AtomicBool::new(false));
    let sealers: Vec<_> = engines
        .iter()
        .map(|engine| {
            let (engine, done) = (engine.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::SeqCst) {
                    engine.seal().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
            })
        })
        .collect();
    let url = world.database.url.clone().unwrap();
    let holders: Vec<_> = (0..3).map(|n| tokio::spawn(hold_open(url.clone(), n))).collect();
    let writers: Vec<_> = ["acme", "bolt"]
        .into_iter()
        .zip(engines.clone())
        .map(|(tenant, engine)| tokio::spawn(write(engine, tenant)))
        .collect();
    for task in holders.into_iter().chain(writers) {
        task.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for sealer in sealers {
        sealer.await.unwrap();
    }
    world.seal_all().await;
    let report = verify(&world.engine).await.unwrap();
    assert_eq!(report.unsealed, 0);
    assert_eq!(
        i64::try_from(report.entries).unwrap(),
        world.number("select count(*) from log").await
    );
    assert_eq!(
        world
            .number("select count(*) from log where actor = 'late'")
            .await,
        3 * 8 * 3
    );
    assert!(report.blocks > 10, "{} blocks", report.blocks);
    world.assert_healthy().await;
}

/// Transactions that get their number early and write to the log late, one after another.
async fn hold_open(url: String, n: u64) {
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let entry =
        "insert into log (at_ms, tenant_id, action, actor) values (1, 'acme', 'item.submitted', 'late')";
    for _ in 0..8 {
        client.batch_execute(&format!("begin; {entry}")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(60 + 37 * n)).await;
        client
            .batch_execute(&format!("{entry}; {entry}; commit"))
            .await
            .unwrap();
    }
}

async fn write(engine: Engine, tenant: &'static str) {
    for round in 0..40 {
        let items = (0..10).map(|n| World::item(&format!("{round}-{n}"))).collect();
        let call = docket_engine::Submit {
            collection: names::collection(tenant),
            items,
            idempotency_key: None,
        };
        engine.submit(&World::scope(tenant), call).await.unwrap();
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}
