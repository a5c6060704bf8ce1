//! From a live PostgreSQL table.

use std::process::Command;

use docket_testkit::{Database, Plain};
use serde_json::json;

use super::site::{Site, kill_after, run};

/// Somebody's queue: names that need quoting, and every kind of column.
const QUEUE: &str = r#"
    create schema "Old Queue";
    create table "Old Queue"."Docs" (
        "Id" bigint primary key, status text, "select" text, total numeric(12, 2), sure real, extracted jsonb, raw json,
        created timestamptz, day date, ref uuid, bytes bytea, tags text[], docket_row int
    );
    insert into "Old Queue"."Docs"
    select n * 3, case when n % 5 = 0 then 'approved' when n % 5 = 1 then 'pending' end, 'it''s "quoted"', n + 0.5, 0.5,
           jsonb_build_object('vendor', jsonb_build_object('value', 'Acme ' || n, 'confidence', 0.25)), '{"b": 1, "a": 2}',
           timestamptz '2026-03-01 09:30:00+02' + n * interval '1 second', '2026-03-01',
           '3b241101-e2bb-4255-8caf-4136c566a962', '\xcafe', array['x', 'y'], null
    from generate_series(1, 5000) n;
"#;

fn from_table(site: &Site, source: &Database) -> Command {
    let mut command = site.backfill();
    command.env("DOCKET_SOURCE_URL", source.url.as_deref().expect("it has a URL"));
    command.args([
        "--table",
        r#""Old Queue"."Docs""#,
        "--key-column",
        "Id",
        "--confidence-max",
        "1",
        "--batch",
        "10",
    ]);
    command.args([
        "--map",
        "fields=extracted",
        "--map",
        "totalAmount=total",
        "--map",
        "createdAt=created",
    ]);
    command
}

async fn source() -> Database {
    let source = Database::postgres().await;
    source.execute(QUEUE).await.expect("the table can be made");
    source
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_moves_in_and_goes_on_after_a_kill() {
    let (site, source) = (Site::new(Database::postgres().await).await, source().await);
    let checkpoint = site.path("backfill-_Old_Queue_._Docs_.json");
    let first = kill_after(&mut from_table(&site, &source), &checkpoint, 0).await;
    assert!(first < 5_000, "it was to be killed half-way");
    let second = kill_after(&mut from_table(&site, &source), &checkpoint, first).await;
    assert!(second > first, "it goes on: {first} {second}");
    let said = run(from_table(&site, &source).arg("--json"));
    assert_eq!(said.code, 0, "{said:?}");
    let sum = said.summary();
    assert_eq!(
        (&sum["records"], &sum["skippedBy"]),
        (&json!(5_000), &json!({ "decided: approved": 1_000 }))
    );
    assert_eq!(
        (site.items().await, site.pending().await),
        ((4_000, 4_000), 4_000)
    );
    let item = site.item("12").await;
    assert_eq!(
        item["payload"],
        json!({
            "Id": 12, "status": null, "select": "it's \"quoted\"", "total": 4.5, "sure": 0.5,
            "extracted": { "vendor": { "value": "Acme 4", "confidence": 0.25 } }, "raw": { "a": 2, "b": 1 },
            "created": "2026-03-01T07:30:04+00:00", "day": "2026-03-01", "ref": "3b241101-e2bb-4255-8caf-4136c566a962",
            "bytes": "\\xcafe", "tags": ["x", "y"], "docket_row": null,
        })
    );
    assert_eq!(item["metadata"]["createdAt"], "2026-03-01T07:30:04.000Z");
    assert_eq!(item["fields"][0]["confidence"], 25.0);
    // Rows that came since are gone on with, and looking at everything again takes nothing twice.
    let more = r#"insert into "Old Queue"."Docs" ("Id", status) values (100000, 'error')"#;
    source.execute(more).await.expect("a row can be added");
    let said = run(from_table(&site, &source).arg("--json"));
    assert_eq!(said.summary()["records"], 5_001, "{said:?}");
    let said = run(from_table(&site, &source).args(["--json", "--restart"]));
    assert_eq!(
        (&said.summary()["taken"], &said.summary()["known"]),
        (&json!(0), &json!(4_001)),
        "{said:?}"
    );
    let left = Plain::of(&source)
        .number(r#"select count(*) from "Old Queue"."Docs""#)
        .await;
    assert_eq!(left, 5_001, "the source is as it was");
    site.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_rows_that_are_asked_for_are_read_and_none_is_missed_in_silence() {
    let (site, source) = (Site::new(Database::sqlite()).await, source().await);
    let said = run(from_table(&site, &source).args(["--json", "--where", "\"Id\" <= 30 -- only the first"]));
    assert_eq!(
        (said.code, &said.summary()["records"]),
        (0, &json!(10)),
        "{said:?}"
    );
    let view = r#"
        create view queue as select "Id" as id, nullif("Id", 9) as maybe, status from "Old Queue"."Docs" where "Id" < 30;
        create sequence counter;
        create table "twice" (id int not null, status text);
    "#;
    source.execute(view).await.expect("a view can be made");
    let url = source.url.as_deref().expect("it has a URL");
    let from = |args: &[&str]| run(site.backfill().args(["--postgres", url, "--json"]).args(args));
    for (args, said) in [
        (
            &["--table", "nowhere", "--key-column", "id"][..],
            "there is no table nowhere",
        ),
        (
            &["--table", "queue", "--key-column", "number"],
            "has no column 'number'",
        ),
        (
            &["--table", "twice", "--key-column", "id"],
            "no index says that id of public.twice is unique",
        ),
        (
            &["--table", "queue", "--key-column", "maybe", "--key-is-unique"],
            "have no maybe",
        ),
        (
            &[
                "--table",
                "queue",
                "--key-column",
                "id",
                "--key-is-unique",
                "--where",
                "no_such > 1",
            ],
            "no_such",
        ),
        (
            &[
                "--table",
                "queue",
                "--key-column",
                "id",
                "--key-is-unique",
                "--where",
                "nextval('counter') > 0",
                "--state",
                "other.json",
            ],
            "read-only",
        ),
    ] {
        let ran = from(args);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.complains(said);
    }
    let said = from(&["--table", "queue", "--key-column", "ID", "--key-is-unique"]);
    assert_eq!(
        (said.code, &said.summary()["records"]),
        (0, &json!(9)),
        "{said:?}"
    );
    site.close();
}
