//! Several jobs for one command, and commands that live on.

use serde_json::json;

use crate::site::{Site, written};

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_one_by_one_and_a_missing_answer_fails() {
    let site = Site::new().await;
    site.pipeline(1).await;
    let mut ids = Vec::new();
    for kind in ["good", "bad", "silent", "bare"] {
        ids.push(site.submit(json!({ "kind": kind })).await);
    }
    let exec = r#"python3 -c '
import json, sys
for line in sys.stdin:
    job = json.loads(line)
    kind = job["payload"]["kind"]
    answer = {"jobId": job["jobId"]}
    if kind == "good":
        print(json.dumps({"jobId": job["jobId"], "step": "ocr", "output": 7}))
        answer["result"] = {"ok": True}
    if kind == "bad":
        answer["error"] = "torn page"
    if kind != "silent":
        print(json.dumps(answer))
print("bye")
'"#;
    let log = site.work(exec, &["--batch", "10"]).await;
    let good = site.item_that_is(&ids[0], "completed").await;
    assert_eq!(good.result, Some(json!({ "ok": true })), "{log}");
    assert!(good.job.expect("it has a job").steps[0].completed_at.is_some());
    assert_eq!(
        site.item_that_is(&ids[1], "failed").await.error.as_deref(),
        Some("torn page")
    );
    let silent = site.item_that_is(&ids[2], "failed").await.error;
    assert_eq!(
        silent.as_deref(),
        Some("the command ended without an answer for this job")
    );
    assert_eq!(site.item_that_is(&ids[3], "completed").await.result, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_serves_many_jobs_with_one_process_and_a_dead_one_is_replaced() {
    let site = Site::new().await;
    let mut ids = Vec::new();
    for number in 0..6 {
        ids.push(site.submit(json!({ "number": number })).await);
    }
    let exec = r#"python3 -u -c '
import json, os, sys
for line in sys.stdin:
    job = json.loads(line)
    number = job["payload"]["number"]
    if number == 3 and job["attempt"] == 1:
        sys.exit(9)
    print("looking at", number)
    print(json.dumps({"step": "ocr", "output": number}))
    print(json.dumps({"jobId": job["jobId"], "result": {"number": number, "pid": os.getpid()}}))
'"#;
    let worker = site.worker(exec, &["--mode", "stream"]);
    let mut processes = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        let item = site.item_that_is(id, "completed").await;
        let result = item.result.expect("there is a result");
        assert_eq!(result["number"], json!(number));
        processes.push(result["pid"].as_u64().expect("it is a number"));
    }
    assert_eq!(
        site.client()
            .item(&ids[3])
            .await
            .expect("it is there")
            .job
            .expect("it has a job")
            .attempt,
        2
    );
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(
        processes.len(),
        2,
        "one process until it died, and one after that"
    );
    worker.signal("-TERM");
    assert_eq!(worker.end().await.0, Some(0));
    for pid in processes {
        crate::site::gone(&pid.to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_side_by_side() {
    let site = Site::new().await;
    for _ in 0..3 {
        site.submit(json!({ "n": site.folder.path(), "r": rand_text() }))
            .await;
    }
    // Each waits for the other two: one at a time they would never end.
    let folder = site.folder.path().join("here");
    std::fs::create_dir(&folder).expect("it can be made");
    let exec = format!(
        "cd {}; touch $DOCKET_JOB; while [ $(ls | wc -l) -lt 3 ]; do sleep 0.05; done; echo '{{\"met\": true}}'",
        folder.display()
    );
    let log = site.work(&exec, &["--concurrency", "3"]).await;
    let (code, shown, _) = site
        .run(&[
            "items",
            "list",
            "--collection",
            "c",
            "--status",
            "completed",
            "--json",
        ])
        .await;
    let page: serde_json::Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(
        (code, page["items"].as_array().map(Vec::len)),
        (0, Some(3)),
        "{log}"
    );
}

/// Something that makes a payload another one.
fn rand_text() -> String {
    tempfile::NamedTempFile::new()
        .expect("there is a file")
        .path()
        .display()
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_are_kept_and_a_killed_worker_loses_none() {
    let site = Site::new().await;
    let id = site.submit(json!(1)).await;
    let (pid, again) = (site.folder.path().join("pid"), site.folder.path().join("again"));
    // By a line, by the command, and then it hangs.
    let exec = format!(
        "echo '{{\"step\": \"ocr\", \"output\": {{\"pages\": 2}}}}'; echo $$ > {}; sleep 300",
        pid.display()
    );
    let worker = site.worker(&exec, &["--lease-seconds", "2"]);
    let child = written(&pid).await;
    site.item_that_is(&id, "processing").await;
    for _ in 0..200 {
        let job = site
            .client()
            .item(&id)
            .await
            .expect("it is there")
            .job
            .expect("it has a job");
        if job.steps[0].completed_at.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    worker.signal("-KILL");
    worker.end().await;
    // Not by the program `kill`: some versions read "-1234" as "-1", which is everybody.
    let group = rustix::process::Pid::from_raw(child.parse().expect("it is a number")).expect("it is not 0");
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).expect("the group is there");
    let exec = format!(
        "cat > {0}; \"$DOCKET_BIN\" step extract --output '{{\"total\": 5}}' || exit 65; echo '{{\"done\": true}}'",
        again.display()
    );
    let _worker = site.worker(&exec, &[]);
    let item = site.item_that_is(&id, "completed").await;
    let job: serde_json::Value = serde_json::from_str(&written(&again).await).expect("it is a job");
    assert_eq!(job["steps"][0]["output"], json!({ "pages": 2 }));
    assert_eq!(job["steps"][1]["status"], json!("pending"));
    assert_eq!(
        (job["attempt"].as_u64(), item.result),
        (Some(2), Some(json!({ "done": true })))
    );
    let steps = item.job.expect("it has a job").steps;
    assert!(steps.iter().all(|step| step.completed_at.is_some()), "{steps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_the_pipeline_does_not_know_fails_the_job_for_good() {
    let site = Site::new().await;
    let id = site.submit(json!(1)).await;
    site.work("echo '{\"step\": \"dance\"}'; sleep 100", &[]).await;
    let item = site.item_that_is(&id, "failed").await;
    let error = item.error.expect("it has failed");
    assert!(error.starts_with("step 'dance' could not be kept"), "{error}");
    let id = site.submit(json!(2)).await;
    site.work(
        "\"$DOCKET_BIN\" step dance 2>&1 || echo '{\"refused\": true}'",
        &[],
    )
    .await;
    assert_eq!(
        site.item_that_is(&id, "completed").await.result,
        Some(json!({ "refused": true }))
    );
}
