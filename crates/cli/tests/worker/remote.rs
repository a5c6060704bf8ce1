//! Commands that ask a server.

use docket_client::EventsFilter;
use serde_json::{Value, json};

use crate::site::Site;

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_set_up_and_looked_at_from_the_command_line() {
    let site = Site::new().await;
    let ok = async |args: &[&str]| {
        let (code, shown, complaint) = site.run(args).await;
        assert_eq!((code, complaint.as_str()), (0, ""), "{args:?}: {shown}");
        shown
    };
    ok(&[
        "tenants",
        "put",
        "acme",
        "--tier",
        "pro",
        "--uploads-per-hour",
        "unlimited",
    ])
    .await;
    assert!(ok(&["tenants", "show", "acme"]).await.contains("unlimited"));
    let tenants = json_of(&ok(&["tenants", "list", "--json"]).await);
    assert_eq!(tenants["items"].as_array().map(Vec::len), Some(2));
    let put = [
        "pipelines",
        "put",
        "bills",
        "--steps",
        "ocr,extract",
        "--lease-seconds",
        "30",
        "--json",
    ];
    assert_eq!(json_of(&ok(&put).await)["steps"], json!(["ocr", "extract"]));
    assert!(ok(&["pipelines", "list"]).await.contains("bills"));
    ok(&[
        "collections",
        "put",
        "inbox",
        "--tenant",
        "acme",
        "--pipeline",
        "bills",
    ])
    .await;
    assert!(ok(&["collections", "show", "inbox"]).await.contains("bills"));
    let pause = json_of(&ok(&["pause", "--pipeline", "bills", "--reason", "upgrade", "--json"]).await);
    assert!(ok(&["pauses"]).await.contains("upgrade"));
    ok(&["resume", pause["id"].as_str().expect("it has an id")]).await;
    assert!(ok(&["pauses"]).await.contains("There are none"));
    let made = json_of(&ok(&["keys", "create", "--role", "worker", "--subject", "w1", "--json"]).await);
    assert!(made["key"].as_str().is_some_and(|key| key.starts_with("dk_")));
    let listed = ok(&["keys", "list"]).await;
    assert!(listed.contains("w1") && !listed.contains(made["key"].as_str().expect("it is a text")));
    ok(&["keys", "revoke", made["id"].as_str().expect("it has an id")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_are_submitted_followed_and_explained() {
    let site = Site::new().await;
    let file = site.folder.path().join("a.txt");
    std::fs::write(&file, "hello").expect("it can be written");
    let path = file.to_str().expect("it is UTF-8");
    let (code, shown, complaint) = site.run(&["items", "submit", "c", path, path]).await;
    assert_eq!(code, 0, "{complaint}");
    assert!(
        shown.contains("1 submitted, 1 known already, 0 refused."),
        "{shown}"
    );
    let lines = site.folder.path().join("items.jsonl");
    std::fs::write(
        &lines,
        "{\"payload\": 1}\n\n{\"payload\": 2, \"externalId\": \"x\"}\nnonsense\n{\"payload\": 3}\n",
    )
    .expect("it can be written");
    let jsonl = lines.to_str().expect("it is UTF-8");
    let submit = [
        "items",
        "submit",
        "c",
        "--jsonl",
        jsonl,
        "--batch",
        "2",
        "--idempotency-key",
        "k",
    ];
    let (code, shown, complaint) = site.run(&submit).await;
    assert_eq!(code, 1, "{complaint}");
    assert!(
        shown.contains("3 submitted, 0 known already, 1 refused."),
        "{shown}"
    );
    assert!(shown.contains("line 4: "), "{shown}");
    let (_, shown, _) = site.run(&["items", "list", "--collection", "c", "--json"]).await;
    let items = json_of(&shown)["items"]
        .as_array()
        .cloned()
        .expect("it is a list");
    assert_eq!(items.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_is_explained_worked_on_and_watched() {
    let site = Site::new().await;
    let line = site.folder.path().join("item.jsonl");
    std::fs::write(&line, "{\"payload\": 2, \"externalId\": \"x\"}\n").expect("it can be written");
    let submitted = site
        .run(&[
            "items",
            "submit",
            "c",
            "--jsonl",
            line.to_str().expect("it is UTF-8"),
        ])
        .await;
    assert_eq!(submitted.0, 0, "{}", submitted.2);
    let found = site
        .run(&[
            "items",
            "list",
            "--external-id",
            "x",
            "--collection",
            "c",
            "--json",
        ])
        .await
        .1;
    let id = json_of(&found)["items"][0]["id"]
        .as_str()
        .expect("it has an id")
        .to_owned();
    let (code, shown, _) = site.run(&["items", "explain", &id]).await;
    assert_eq!(code, 0);
    assert!(shown.contains("The item is queued."), "{shown}");
    let (code, _, complaint) = site.run(&["items", "retry", &id]).await;
    assert_eq!(code, 1);
    assert!(
        complaint.contains("only a failed item can be retried"),
        "{complaint}"
    );
    site.work("echo '{\"a\": 1}'", &["--concurrency", "2"]).await;
    let (code, shown, _) = site.run(&["items", "watch", &id]).await;
    assert_eq!(code, 0, "{shown}");
    let (_, shown, _) = site.run(&["items", "show", &id]).await;
    assert!(
        shown.contains("completed") && shown.contains("{\"a\":1}"),
        "{shown}"
    );
    let (_, shown, _) = site.run(&["items", "timeline", &id]).await;
    assert!(
        shown.contains("item.submitted") && shown.contains("job.completed"),
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_worked_by_hand() {
    let site = Site::new().await;
    site.submit(json!(1)).await;
    let key = ["--key"];
    let made = site
        .run(&[
            "keys",
            "create",
            "--role",
            "service",
            "--subject",
            "hand",
            "--json",
        ])
        .await
        .1;
    let secret = json_of(&made)["key"].as_str().expect("it is a text").to_owned();
    let hand = async |args: &[&str]| site.run(&[args, &key, &[&secret]].concat()).await;
    let claimed = json_of(&hand(&["jobs", "claim", "p", "--json"]).await.1);
    let job = claimed["jobs"][0]["jobId"]
        .as_str()
        .expect("it has an id")
        .to_owned();
    let token = claimed["jobs"][0]["leaseToken"].to_string();
    let (code, shown, _) = hand(&["jobs", "complete", &job, "999999"]).await;
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("lease_lost"), "{shown}");
    let (code, shown, complaint) =
        hand(&["jobs", "complete", &job, &token, "--result", "{\"by\": \"hand\"}"]).await;
    assert_eq!(code, 0, "{shown}{complaint}");
    let (code, shown, _) = hand(&["jobs", "reap"]).await;
    assert_eq!((code, shown.trim()), (0, "0 failed, 0 put back."));
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_and_words_tell_what_to_do() {
    let site = Site::new().await;
    let (code, _, complaint) = site.run(&["tenants", "show", "nobody"]).await;
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("nobody"), "{complaint}");
    let (code, _, complaint) = site.run(&["tenants", "list", "--key", "dk_wrong"]).await;
    assert_eq!(code, 1);
    assert!(complaint.contains("DOCKET_KEY"), "{complaint}");
    let (code, _, complaint) = site
        .run(&["tenants", "list", "--url", "http://127.0.0.1:9"])
        .await;
    assert_eq!(code, 2);
    assert!(
        complaint.contains("cannot be reached") && complaint.contains("--url"),
        "{complaint}"
    );
    assert_eq!(site.run(&["tenants", "dance"]).await.0, 2);
    let (code, script, _) = site.run(&["completions", "bash"]).await;
    assert!(code == 0 && script.contains("docket"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_can_be_made_without_a_server() {
    let mut site = Site::new().await;
    site.halt().await;
    let data = site.folder.path().to_str().expect("it is UTF-8").to_owned();
    let mut made = None;
    for _ in 0..100 {
        let create = [
            "keys",
            "create",
            "--role",
            "admin",
            "--subject",
            "found-again",
            "--data",
            &data,
            "--json",
        ];
        let (code, shown, _) = site.run(&create).await;
        if code == 0 {
            made = Some(json_of(&shown)["key"].as_str().expect("it is a text").to_owned());
            break;
        }
        // The server's writer gives the folder up in its own time.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let made = made.expect("a key was made");
    site.restart().await;
    let (code, shown, complaint) = site.run(&["keys", "list", "--key", &made]).await;
    assert!(code == 0 && shown.contains("found-again"), "{complaint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_stream_goes_on_across_a_restart_of_the_server() {
    let mut site = Site::new().await;
    let filter = EventsFilter {
        collection_id: Some("c".to_owned()),
        ..EventsFilter::default()
    };
    let mut events = site.client().events(filter);
    let (to, mut submitted) = tokio::sync::mpsc::unbounded_channel();
    let listening = tokio::spawn(async move {
        while let Ok(event) = events.next().await {
            if event.data["action"] == json!("item.submitted") {
                to.send(event.data["itemId"].as_str().map(str::to_owned)).ok();
            }
        }
    });
    // The stream begins with what happens after it was opened: submit until it has.
    let mut wanted = Vec::new();
    let first = loop {
        wanted.push(site.submit(json!(wanted.len())).await);
        let wait = std::time::Duration::from_millis(200);
        if let Ok(Some(first)) = tokio::time::timeout(wait, submitted.recv()).await {
            break first.expect("it names its item");
        }
    };
    let begin = wanted
        .iter()
        .position(|id| *id == first)
        .expect("it was submitted");
    site.halt().await;
    site.restart().await;
    for n in 100..103 {
        wanted.push(site.submit(json!(n)).await);
    }
    for id in &wanted[begin + 1..] {
        let wait = std::time::Duration::from_secs(20);
        let seen = tokio::time::timeout(wait, submitted.recv())
            .await
            .expect("it comes in time");
        assert_eq!(seen.flatten().as_ref(), Some(id), "no gap and no repeat");
    }
    listening.abort();
}
