//! How work ends before it is done: lost leases, signals, servers that go away.

use std::time::Duration;

use docket_client::wire::job::Reap;
use serde_json::json;

use crate::site::{Site, gone, written};

/// A command that tells its process and that of its child, and then waits.
fn waits(site: &Site, seconds: u32) -> (String, std::path::PathBuf) {
    let path = site.folder.path().join("processes");
    let exec = format!(
        "sleep {seconds} & echo $! > {0}.part; mv {0}.part {0}; wait; echo '{{\"waited\": true}}'",
        path.display()
    );
    (exec, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_kills_the_whole_group() {
    let site = Site::new().await;
    site.pipeline(1).await;
    let id = site.submit(json!(1)).await;
    let (exec, path) = waits(&site, 300);
    let worker = site.worker(&exec, &["--lease-seconds", "3"]);
    let child = written(&path).await;
    // An operator takes the job away from a worker that lives.
    let reap = Reap {
        older_than_seconds: Some(0.0),
    };
    site.client().reap(&reap).await.expect("it is reaped");
    site.item_that_is(&id, "failed").await;
    gone(&child).await;
    worker.signal("-TERM");
    let (code, log) = worker.end().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("the lease is lost"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_shorter_than_the_work_is_kept_alive() {
    let site = Site::new().await;
    let id = site.submit(json!(1)).await;
    site.work("sleep 3; echo '{\"slow\": true}'", &["--lease-seconds", "1"])
        .await;
    let item = site.item_that_is(&id, "completed").await;
    assert_eq!(item.job.expect("it has a job").attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_what_runs_end_and_takes_nothing_more() {
    let site = Site::new().await;
    let (first, second) = (site.submit(json!(1)).await, site.submit(json!(2)).await);
    let (exec, path) = waits(&site, 1);
    let worker = site.worker(&exec, &[]);
    written(&path).await;
    worker.signal("-TERM");
    let (code, log) = worker.end().await;
    assert_eq!(code, Some(0), "{log}");
    let item = site.item_that_is(&first, "completed").await;
    assert_eq!(item.result, Some(json!({ "waited": true })));
    let left = site.item_that_is(&second, "queued").await;
    assert_eq!(left.job.expect("it has a job").attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_outlives_the_grace_or_a_second_signal_is_stopped_and_handed_back() {
    let site = Site::new().await;
    for (grace, signals) in [("0.2", 1), ("100", 2)] {
        let id = site.submit(json!(grace)).await;
        let (exec, path) = waits(&site, 300);
        let worker = site.worker(&exec, &["--grace-seconds", grace]);
        let child = written(&path).await;
        for _ in 0..signals {
            worker.signal("-INT");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let (code, log) = worker.end().await;
        assert_eq!(code, Some(0), "{log}");
        gone(&child).await;
        let item = site.item_that_is(&id, "queued").await;
        let job = item.job.expect("it has a job");
        assert_eq!(job.retry_count, 0, "handing back is no failed attempt");
        site.client().item_cancel(&id).await.expect("it can be cancelled");
        std::fs::remove_file(&path).expect("it can be removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_in_the_middle_gets_its_result() {
    let mut site = Site::new().await;
    let id = site.submit(json!(1)).await;
    let (exec, path) = waits(&site, 2);
    let worker = site.worker(&exec, &["--lease-seconds", "20"]);
    written(&path).await;
    site.halt().await;
    // The command ends while there is no server.
    tokio::time::sleep(Duration::from_secs(3)).await;
    site.restart().await;
    let item = site.item_that_is(&id, "completed").await;
    assert_eq!(
        (item.result, item.job.expect("it has a job").attempt),
        (Some(json!({ "waited": true })), 1)
    );
    // And it works on.
    let next = site.submit(json!(2)).await;
    site.item_that_is(&next, "completed").await;
    worker.signal("-TERM");
    let (code, log) = worker.end().await;
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("could not be delivered"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_that_is_not_there_and_a_wrong_key_are_told_at_once() {
    let site = Site::new().await;
    let (code, _, complaint) = site
        .run_as_worker(&["worker", "--pipeline", "q", "--exec", "true"])
        .await;
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("there is no pipeline 'q'"), "{complaint}");
    let wrong = ["worker", "--pipeline", "p", "--exec", "true", "--key", "dk_wrong"];
    let (code, _, complaint) = site.run_as_worker(&wrong).await;
    assert_eq!(code, 1, "{complaint}");
    let (code, _, complaint) = site.run(&["worker", "--pipeline", "p", "--exec", "true"]).await;
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("role"), "an admin is no worker: {complaint}");
}
