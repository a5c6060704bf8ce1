//! From files of JSON lines.

use std::io::Write as _;
use std::process::Stdio;

use docket_testkit::Database;
use serde_json::{Value, json};

use super::site::{Site, backfill_at, run};

/// What `mongoexport` writes, in its two forms, with what goes wrong in real exports.
const EXPORT: &str = concat!(
    "\u{feff}",
    r#"{"_id":{"$oid":"650000000000000000000001"},"status":null,"createdAt":{"$date":"2026-03-01T09:30:00Z"},"total":{"$numberDecimal":"1234.50"},"extracted":{"vendor":{"value":"Acme","confidence":0.5},"tax":{"value":{"$numberInt":"19"}}},"lines":[1,2,3]}"#,
    "\r\n",
    r#"{"_id":{"$oid":"650000000000000000000002"},"status":"pending","createdAt":{"$date":{"$numberLong":"1772357400000"}},"total":{"$numberDouble":"7.0"}}"#,
    "\n\n",
    r#"{"_id":{"$oid":"650000000000000000000003"},"status":"ERROR"}"#,
    "\n",
    r#"{"_id":{"$oid":"650000000000000000000004"},"status":"approved"}"#,
    "\n",
    r#"{"_id":{"$oid":"650000000000000000000005"},"status":"Rejected"}"#,
    "\n",
    r#"{"_id":{"$oid":"650000000000000000000006"},"status":"triage"}"#,
    "\n",
    r#"{"status":"pending"}"#,
    "\n",
    "not json\n",
    r#"{"_id":{"$oid":"650000000000000000000001"},"status":null,"other":true}"#,
    "\n",
    r#"{"_id":{"$oid":"650000000000000000000007"},"sta"#,
);

const MAPPING: &str = r#"
created_at = "createdAt"
total_amount = "total"
line_item_count = "lines"
fields = "extracted"
confidence_max = 1
[metadata]
source = "source"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_moves_in_and_every_line_is_accounted_for() {
    let site = Site::new(Database::sqlite()).await;
    let (file, refused) = (site.file("export.jsonl", EXPORT), site.path("refused.jsonl"));
    let mapping = site.file("mapping.toml", MAPPING);
    let again = || {
        let mut command = site.backfill();
        command
            .arg(&file)
            .arg("--mapping")
            .arg(&mapping)
            .arg("--refused")
            .arg(&refused);
        command
    };
    let said = run(&mut again());
    assert_eq!(said.code, 1, "{said:?}");
    for line in [
        "  10 records read",
        "   3 taken, for review",
        "   2 skipped (1 decided: approved, 1 decided: rejected)",
        "   5 refused (1 cannot be mapped, 1 external_id_conflict, 1 no JSON, 1 not whole, 1 unknown status)",
        "  - line 7: the status 'triage' (status) is not known; say --pending or --decided 'triage'",
        "  - line 8: there is no externalId at _id",
        "  - line 9: expected ident at line 1 column 2",
        "  - line 10: externalId '650000000000000000000001' already names other content",
        "  - line 11: EOF while parsing",
    ] {
        said.shows(line);
    }
    let first = site.item("650000000000000000000001").await;
    assert_eq!(first["status"], "in_review");
    assert_eq!(first["payload"]["total"], 1234.5);
    assert_eq!(
        first["metadata"],
        json!({ "createdAt": "2026-03-01T09:30:00.000Z" })
    );
    assert_eq!(first["fields"][1]["value"], "Acme");
    assert_eq!(first["fields"][1]["confidence"], 50.0);
    let second = site.item("650000000000000000000002").await;
    assert_eq!(second["payload"]["createdAt"], "2026-03-01T09:30:00.000Z");
    assert_eq!((site.items().await, site.pending().await), ((3, 3), 3));
    // The file has been finished and the words explained: what was refused is mended and run again.
    let kept = std::fs::read_to_string(&refused).expect("they were kept");
    let mut mended = String::new();
    for line in kept.lines() {
        let mut line: Value = serde_json::from_str(line).expect("they are JSON");
        let why = &line["refused"];
        assert!(why["line"].is_u64() && why["reason"].is_string(), "{line}");
        if line["record"]["status"] == "pending" {
            line["record"]["_id"] = json!("mended");
        }
        mended.push_str(&format!("{line}\n"));
    }
    let mended = site.file("mended.jsonl", mended);
    let said = run(site
        .backfill()
        .arg(&mended)
        .args(["--pending", "triage", "--json"]));
    assert_eq!((said.code, &said.summary()["taken"]), (1, &json!(2)), "{said:?}");
    site.item("mended").await;
    site.item("650000000000000000000006").await;
    site.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_run_takes_nothing_new_with_and_without_its_checkpoint() {
    let site = Site::new(Database::sqlite()).await;
    let lines: String = (0..1_200)
        .map(|n| format!("{{\"_id\": {n}, \"total\": {n}}}\n"))
        .collect();
    let file = site.file("export.jsonl", &lines);
    let again = |more: &[&str]| run(site.backfill().arg(&file).arg("--json").args(more));
    let said = again(&[]);
    assert_eq!(
        (said.code, &said.summary()["taken"]),
        (0, &json!(1_200)),
        "{said:?}"
    );
    // The checkpoint says that there is nothing left to read.
    assert_eq!(again(&[]).summary(), said.summary());
    // Without it everything is sent again, and known.
    let said = again(&["--restart"]);
    assert_eq!(
        (&said.summary()["taken"], &said.summary()["known"]),
        (&json!(0), &json!(1_200)),
        "{said:?}"
    );
    assert_eq!(site.items().await, (1_200, 1_200));
    // A file that has grown is gone on with, a last line that was half written among it.
    std::fs::write(&file, format!("{lines}{{\"_id\": 1200, \"tot")).expect("it can be written");
    let said = again(&[]);
    assert_eq!(
        (said.code, &said.summary()["refusedBy"]),
        (1, &json!({ "not whole": 1 })),
        "{said:?}"
    );
    std::fs::write(
        &file,
        format!("{lines}{{\"_id\": 1200, \"total\": 1}}\n{{\"_id\": 1201}}"),
    )
    .expect("it can be written");
    let said = again(&[]);
    assert_eq!((said.code, &said.summary()["taken"]), (0, &json!(2)), "{said:?}");
    assert_eq!(
        (site.items().await, site.pending().await),
        ((1_202, 1_202), 1_202)
    );
    site.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_of_another_run_is_refused() {
    let site = Site::new(Database::sqlite()).await;
    let file = site.file("export.jsonl", "{\"_id\": 1}\n{\"_id\": 2}\n");
    assert_eq!(run(site.backfill().arg(&file)).code, 0);
    std::fs::write(&file, "{\"_id\": 3}\n{\"_id\": 4}\n").expect("it can be written");
    let said = run(site.backfill().arg(&file));
    assert_eq!(said.code, 2, "{said:?}");
    said.complains("is not the file that was begun with");
    said.complains("--restart");
    let said = run(site.backfill().arg(&file).args(["--map", "totalAmount=total"]));
    assert_eq!(said.code, 2, "{said:?}");
    said.complains("another mapping");
    assert_eq!(site.items().await, (2, 2), "nothing was sent");
    assert_eq!(run(site.backfill().arg(&file).arg("--restart")).code, 0);
    assert_eq!(site.items().await, (4, 4));
    site.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_needs_no_server_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::write(folder.path().join("export.jsonl"), EXPORT).expect("it can be written");
    let dry = |more: &[&str]| {
        let mut command = backfill_at("http://127.0.0.1:9", folder.path());
        command
            .args(["--collection", "invoices", "--dry-run", "export.jsonl"])
            .args(more);
        run(&mut command)
    };
    let said = dry(&["--map", "fields=extracted"]);
    assert_eq!(said.code, 1, "{said:?}");
    said.shows("\"externalId\": \"650000000000000000000001\"");
    said.shows("(dry run, nothing was sent)");
    said.shows("   4 would be sent");
    said.shows("say --confidence-max 1");
    let said = dry(&["--json", "--decided", "triage"]);
    assert_eq!(said.json()["items"].as_array().map(Vec::len), Some(3), "{said:?}");
    assert_eq!(said.summary()["skipped"], 3);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "nothing was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_input_is_read_and_can_be_repeated() {
    let site = Site::new(Database::sqlite()).await;
    for (taken, known) in [(2, 0), (0, 2)] {
        let mut command = site.backfill();
        command
            .args(["-", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let mut input = child.stdin.take().expect("it has an input");
        input
            .write_all(b"{\"_id\": 1}\n{\"_id\": 2}\n")
            .expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let said: Value = serde_json::from_slice(&output.stdout).expect("it answers in JSON");
        assert_eq!(
            (&said["summary"]["taken"], &said["summary"]["known"]),
            (&json!(taken), &json!(known))
        );
    }
    assert_eq!(site.items().await, (2, 2));
    let said = run(site.backfill().args(["-", "--state", "x"]).stdin(Stdio::null()));
    assert_eq!(said.code, 2, "{said:?}");
    site.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_can_enter_as_new_work_within_the_tenants_limit() {
    let site = Site::new(Database::sqlite()).await;
    let lines: String = (0..12).map(|n| format!("{{\"_id\": {n}}}\n")).collect();
    let file = site.file("export.jsonl", &lines);
    let mut command = backfill_at(&site.server.url, file.parent().expect("it lies in a folder"));
    command.env("DOCKET_KEY", &site.key).arg(&file);
    command.args(["--process", "--collection", "docs", "--batch", "5"]);
    let said = run(&mut command);
    assert_eq!(said.code, 2, "a free tenant may submit 10 an hour: {said:?}");
    said.complains("limit of submissions is reached");
    let lifted = json!({ "tier": "free", "uploadsPerHour": "unlimited" });
    site.server
        .good("PUT", "/api/v1/tenants/acme", &site.admin, Some(lifted))
        .await;
    let said = run(&mut command);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(site.items().await, (12, 12));
    assert_eq!(site.item("11").await["status"], "queued");
    site.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_the_whole_run_is_said_and_touches_nothing() {
    let site = Site::new(Database::sqlite()).await;
    let file = site.file("export.jsonl", "{\"_id\": 1}\n");
    let precious = site.file("precious.jsonl", "mine\n");
    let producer = json!({ "role": "producer", "tenantId": "acme", "subject": "ben" });
    let made = site
        .server
        .good("POST", "/api/v1/keys", &site.admin, Some(producer))
        .await;
    let producer = made["key"].as_str().expect("the key is told").to_owned();
    for (args, said) in [
        (
            &["--collection", "nowhere"][..],
            "there is no collection 'nowhere'",
        ),
        (&["--collection", "invoices", "--key", "dk_wrong"], "name a key"),
        (
            &["--collection", "invoices", "--url", "http://127.0.0.1:9"],
            "is the server running?",
        ),
        (
            &["--collection", "invoices", "--map", "total=x"],
            "--map knows no 'total'",
        ),
        (
            &["--collection", "invoices", "--mapping", "nowhere.toml"],
            "nowhere.toml cannot be read",
        ),
        (
            &["--collection", "invoices", "--refused", "export.jsonl"],
            "is the file that is read",
        ),
        (
            &["--collection", "invoices", "--refused", "precious.jsonl"],
            "is there already",
        ),
        (
            &[
                "--collection",
                "invoices",
                "--state",
                "precious.jsonl",
                "--restart",
            ],
            "is no checkpoint",
        ),
        (
            &["--collection", "invoices", "--key", &producer],
            "it takes a key of the role service",
        ),
    ] {
        let mut command = backfill_at(&site.server.url, file.parent().expect("it lies in a folder"));
        command.env("DOCKET_KEY", &site.key).arg(&file).args(args);
        let ran = run(&mut command);
        assert_eq!(ran.code, 2, "{ran:?}");
        ran.complains(said);
    }
    assert_eq!(site.items().await, (0, 0));
    let kept = std::fs::read_to_string(&precious).expect("it is there");
    assert_eq!(kept, "mine\n", "nobody's file was touched");
    site.close();
}
