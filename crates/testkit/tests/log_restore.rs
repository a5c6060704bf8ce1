//! The log after a dump was restored into another cluster, whose transactions are numbered from the beginning (rules L2 and L4).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::process::Command;
use std::time::Duration;

use docket_engine::{LogFilter, LogOrder, LogPosition, LogQuery};
use docket_testkit::{Cluster, Database, World};

async fn newest(world: &World) -> LogPosition {
    let query = LogQuery {
        order: LogOrder::NewestFirst,
        limit: 1,
        ..LogQuery::default()
    };
    let page = world.engine.log_of_all(&World::operator(), None, query).await;
    page.unwrap().entries[0].position
}

fn dump_and_restore(from: &str, to: &str) {
    let dump = Command::new("pg_dump").args(["--dbname", from]).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), dump.stdout).unwrap();
    let restored = Command::new("psql")
        .args([
            "--quiet",
            "--no-psqlrc",
            "--set",
            "ON_ERROR_STOP=1",
            "--dbname",
            to,
            "--file",
        ])
        .arg(file.path())
        .output()
        .unwrap();
    assert!(
        restored.status.success(),
        "{}",
        String::from_utf8_lossy(&restored.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_restored_elsewhere_goes_on_in_order() {
    let old = World::new(Database::postgres().await).await;
    // Other transactions, so that the new cluster is sure to be behind.
    let others = "do $$ begin for i in 1..5000 loop perform pg_current_xact_id(); commit; end loop; end $$";
    old.execute(others).await.unwrap();
    old.lanes(2, &["acme"]).await;
    old.submit_many("acme", "before", 20).await;
    old.seal_all().await;
    old.submit_many("acme", "unsealed", 5).await;
    let last = newest(&old).await;

    let cluster = Cluster::start("").await;
    let database = cluster.database().await;
    dump_and_restore(old.database.url.as_ref().unwrap(), database.url.as_ref().unwrap());
    let new = World::new(database).await;
    let present = new.number("select pg_current_xact_id()::text::bigint").await;
    assert!(
        present < last.tx,
        "the new cluster is at {present}, the log at {last}"
    );

    let mut follower = new
        .engine
        .follow_all(&World::operator(), None, LogFilter::default(), Some(last))
        .await
        .unwrap();
    let item = new.submit_one("acme", "after").await.id;
    assert!(newest(&new).await > last);
    let seen = tokio::time::timeout(Duration::from_secs(10), follower.next()).await;
    let seen = seen.unwrap().unwrap();
    assert_eq!(
        (seen.len(), seen[0].item),
        (1, Some(item)),
        "and nothing else does"
    );
    new.seal_all().await;
    let proved = new
        .engine
        .audit_verify(&World::operator(), |_, _| {})
        .await
        .unwrap();
    let proved = proved.unwrap();
    assert_eq!(proved.unsealed, 0);
    assert_eq!(
        i64::try_from(proved.entries).unwrap(),
        new.number("select count(*) from log").await
    );
    new.assert_healthy().await;
}
