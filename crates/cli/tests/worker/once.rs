//! One command for each job.

use docket_client::Upload;
use serde_json::json;

use crate::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_in_python_is_three_lines() {
    let site = Site::new().await;
    let id = site.submit(json!({ "words": "one two three" })).await;
    let exec = r#"python3 -c '
import json, sys
job = json.load(sys.stdin)
n = len(job["payload"]["words"].split())
print(json.dumps({"result": {"count": n}, "fields": [{"name": "count", "value": n, "confidence": 90}]}))
'"#;
    let log = site.work(exec, &[]).await;
    let item = site.item_that_is(&id, "completed").await;
    assert_eq!(item.result, Some(json!({ "count": 3 })), "{log}");
    assert_eq!(item.fields[0].name, "count");
    assert_eq!(item.fields[0].value, json!(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_command_is_tried_again_and_its_last_words_are_kept() {
    let site = Site::new().await;
    let id = site.submit(json!(1)).await;
    let exec = "echo reading >&2; echo 'no total found' >&2; exit 3";
    let worker = site.worker(exec, &[]);
    let item = site.item_that_is(&id, "failed").await;
    assert_eq!(item.error.as_deref(), Some("no total found"));
    assert_eq!(
        item.job.expect("it has a job").attempt,
        3,
        "the pipeline's attempts are used up"
    );
    worker.signal("-TERM");
    assert_eq!(worker.end().await.0, Some(0));
    let again = site.submit(json!(2)).await;
    let exec = "[ $DOCKET_ATTEMPT = 1 ] && exit 1; echo '{\"attempt\": '$DOCKET_ATTEMPT'}'";
    let _worker = site.worker(exec, &[]);
    let item = site.item_that_is(&again, "completed").await;
    assert_eq!(item.result, Some(json!({ "attempt": 2 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_code_65_and_a_final_no_are_not_tried_again() {
    let site = Site::new().await;
    for exec in [
        "echo 'not a PDF' >&2; exit 65",
        "echo '{\"error\": \"not a PDF\", \"retryable\": false}'; exit 1",
        "echo '{\"error\": \"not a PDF\", \"retryable\": false}'",
    ] {
        let id = site.submit(json!(exec)).await;
        site.work(exec, &[]).await;
        let item = site.item_that_is(&id, "failed").await;
        assert_eq!(item.error.as_deref(), Some("not a PDF"), "{exec}");
        assert_eq!(item.job.expect("it has a job").attempt, 1, "{exec}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_may_be_tried_again() {
    let site = Site::new().await;
    site.pipeline(1).await;
    let id = site.submit(json!(1)).await;
    site.work("echo working >&2; kill -9 $$", &[]).await;
    let item = site.item_that_is(&id, "failed").await;
    let error = item.error.expect("it has failed");
    assert_eq!(error, "the command was killed by signal 9; it last said: working");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_is_stopped() {
    let site = Site::new().await;
    site.pipeline(1).await;
    let id = site.submit(json!(1)).await;
    site.work("sleep 100", &["--timeout-seconds", "0.5"]).await;
    let item = site.item_that_is(&id, "failed").await;
    assert_eq!(
        item.error.as_deref(),
        Some("the command took longer than 0.5 seconds and was stopped")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_output_is_read_and_the_answer_found() {
    let site = Site::new().await;
    let id = site.submit(json!(1)).await;
    let exec = "head -c 30000000 /dev/zero | tr '\\0' 'x'; echo; head -c 30000000 /dev/zero | tr '\\0' 'y' >&2; \
                yes line | head -100000; yes noise | head -100000 >&2; echo '{\"done\": true}'";
    let log = site.work(exec, &[]).await;
    let item = site.item_that_is(&id, "completed").await;
    assert_eq!(item.result, Some(json!({ "done": true })));
    assert!(log.len() < 1_000_000, "the log is bounded: {} bytes", log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_need_not_read_its_input() {
    let site = Site::new().await;
    let id = site.submit(json!("x".repeat(900_000))).await;
    site.work("exec <&-; sleep 0.3; echo '{\"a\": 1}'", &[]).await;
    assert_eq!(
        site.item_that_is(&id, "completed").await.result,
        Some(json!({ "a": 1 }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_leaves_running_neither_holds_it_up_nor_lives_on() {
    let site = Site::new().await;
    let id = site.submit(json!(1)).await;
    let pid = site.folder.path().join("pid");
    let exec = format!("sleep 300 & echo $! > {}; echo '{{\"a\": 1}}'", pid.display());
    site.work(&exec, &[]).await;
    site.item_that_is(&id, "completed").await;
    crate::site::gone(&crate::site::written(&pid).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_there_under_its_path_and_gone_afterwards() {
    let site = Site::new().await;
    let path = site.folder.path().join("bill no 5.txt");
    std::fs::write(&path, "total 12").expect("it can be written");
    let uploaded = site
        .client()
        .upload("c", &Upload::new(&path), |_| {})
        .await
        .expect("it is taken");
    assert!(!uploaded.duplicate);
    let again = site
        .client()
        .upload("c", &Upload::new(&path), |_| {})
        .await
        .expect("it is known");
    assert!(again.duplicate);
    let id = uploaded.item.summary.id.to_string();
    let exec = r#"python3 -c '
import json, os, sys
job = json.load(sys.stdin)
assert job["contentPath"] == os.environ["DOCKET_CONTENT"]
assert "leaseToken" not in job
print(json.dumps({"path": job["contentPath"], "text": open(job["contentPath"]).read(), "name": job["filename"]}))
'"#;
    let log = site.work(exec, &[]).await;
    let result = site
        .item_that_is(&id, "completed")
        .await
        .result
        .expect("there is a result");
    assert_eq!(
        (&result["text"], &result["name"]),
        (&json!("total 12"), &json!("bill no 5.txt")),
        "{log}"
    );
    let left = result["path"].as_str().expect("it is a path");
    assert!(
        left.ends_with("bill_no_5.txt") && !std::path::Path::new(left).exists(),
        "{left}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_reaches_a_command() {
    let site = Site::new().await;
    let id = site.submit(json!(1)).await;
    site.work(
        "env | grep -c -e '^DOCKET_KEY' -e dk_ ; echo '{\"ran\": true}'",
        &[],
    )
    .await;
    assert_eq!(
        site.item_that_is(&id, "completed").await.result,
        Some(json!({ "ran": true }))
    );
    let id = site.submit(json!(2)).await;
    site.work(
        "if env | grep -q -e '^DOCKET_KEY' -e dk_; then exit 65; fi; echo '{\"clean\": true}'",
        &[],
    )
    .await;
    assert_eq!(
        site.item_that_is(&id, "completed").await.result,
        Some(json!({ "clean": true }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_is_a_failure_that_says_so() {
    let site = Site::new().await;
    site.pipeline(1).await;
    let id = site.submit(json!(1)).await;
    site.work("echo '{\"fields\": {\"total\": 5}}'", &[]).await;
    let error = site
        .item_that_is(&id, "failed")
        .await
        .error
        .expect("it has failed");
    assert!(
        error.starts_with("the command's answer cannot be read"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_the_server_refuses_fails_the_job_instead_of_hanging() {
    let site = Site::new().await;
    site.pipeline(1).await;
    let id = site.submit(json!(1)).await;
    site.work(
        "python3 -c 'import json; print(json.dumps({\"big\": \"x\" * 1200000}))'",
        &[],
    )
    .await;
    let error = site
        .item_that_is(&id, "failed")
        .await
        .error
        .expect("it has failed");
    assert!(
        error.starts_with("the server refused what the worker answered"),
        "{error}"
    );
}

/// The example of this name in the guide.
fn example(name: &str) -> String {
    let guide = include_str!("../../../../docs/guides/workers.md");
    let mut blocks = guide
        .split("```python\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let found = blocks.find(|block| block.starts_with(&format!("# {name}")));
    found.expect("the guide has it").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_guide_work() {
    let site = Site::new().await;
    for (name, mode, result) in [
        ("count.py", "once", json!({ "words": 2 })),
        ("steps.py", "once", json!({ "pages": 2 })),
        (
            "stream.py",
            "stream",
            json!({ "seen": { "text": "two words", "for": "stream.py" } }),
        ),
    ] {
        let path = site.folder.path().join(name);
        std::fs::write(&path, example(name)).expect("it can be written");
        let id = site.submit(json!({ "text": "two words", "for": name })).await;
        let log = site
            .work(&format!("python3 -u {}", path.display()), &["--mode", mode])
            .await;
        let item = site.item_that_is(&id, "completed").await;
        assert_eq!(item.result, Some(result), "{log}");
    }
}
