//! Killed with -9 in mid-run, and run again: every record is there, and once.

use std::fmt::Write as _;

use docket_testkit::{Database, Plain};

use super::site::{Site, kill_after, run};

const RECORDS: u64 = 20_000;

async fn killed_and_run_again(database: Database) {
    let site = Site::new(database).await;
    let mut text = String::new();
    for n in 0..RECORDS {
        let status = if n % 10 == 9 { "\"approved\"" } else { "null" };
        writeln!(
            text,
            r#"{{"_id": {{"$oid": "{n:024x}"}}, "status": {status}, "total": {{"$numberDecimal": "{n}.50"}}}}"#
        )
        .expect("a line is written");
    }
    let file = site.file("export.jsonl", &text);
    let (checkpoint, refused) = (
        site.path("export.jsonl.backfill.json"),
        site.path("refused.jsonl"),
    );
    let again = || {
        let mut command = site.backfill();
        command
            .arg(&file)
            .args(["--batch", "50", "--map", "totalAmount=total"]);
        command.arg("--refused").arg(&refused);
        command
    };
    let mut before = kill_after(&mut again(), &checkpoint, 0).await;
    assert!(before < RECORDS, "it was to be killed half-way");
    for _ in 0..2 {
        let after = kill_after(&mut again(), &checkpoint, before).await;
        assert!(
            after > before || before == RECORDS,
            "it goes on: {before} {after}"
        );
        before = after;
    }
    let said = run(again().arg("--json"));
    assert_eq!(said.code, 0, "{said:?}");
    let sum = said.summary();
    let waiting = RECORDS / 10 * 9;
    assert_eq!(
        (sum["records"].as_u64(), sum["skipped"].as_u64()),
        (Some(RECORDS), Some(RECORDS / 10))
    );
    // What was under way when it was killed is known the next time.
    let number = |name: &str| sum[name].as_u64().expect("a number");
    assert_eq!(number("taken") + number("known"), waiting, "{sum}");
    let expected = i64::try_from(waiting).expect("a small number");
    assert_eq!(site.items().await, (expected, expected));
    assert_eq!(site.pending().await, expected);
    let begun = "select count(*) from log where action = 'review.created'";
    assert_eq!(Plain::of(&site.database).number(begun).await, expected);
    site.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_that_is_killed_takes_every_record_once_on_sqlite() {
    killed_and_run_again(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_that_is_killed_takes_every_record_once_on_postgres() {
    killed_and_run_again(Database::postgres().await).await;
}
