//! `docket reviews` and `docket reviewers` against a real server, as reviewers and leads use them in a terminal.

use std::process::Command;

use crate::serving::{Server, serve_in};
use serde_json::{Value, json};

struct Desk {
    server: Server,
    admin: String,
}

impl Desk {
    /// A server with a collection `desk` of `acme`, whose items arrive finished and are reviewed.
    async fn open(folder: &std::path::Path) -> Self {
        let server = Server::start(serve_in(folder));
        let admin = server.admin_key();
        let (producer, _) = server.world(&admin).await;
        let collection = json!({ "tenantId": "acme", "review": { "enabled": true, "undoSeconds": 3600 } });
        server
            .good("PUT", "/api/v1/collections/desk", &admin, Some(collection))
            .await;
        let item = |id: &str, confidence: u32| {
            let field = json!({ "name": "vendor", "value": "Acne Corp", "confidence": confidence });
            json!({ "externalId": id, "payload": id, "fields": [field] })
        };
        let items = json!({ "items": [item("sure", 95), item("unsure", 20), item("so-so", 60)] });
        server
            .good("POST", "/api/v1/collections/desk/items", &producer, Some(items))
            .await;
        Self { server, admin }
    }

    async fn key(&self, role: &str, subject: &str) -> String {
        let body = json!({ "role": role, "tenantId": "acme", "subject": subject });
        let made = self
            .server
            .good("POST", "/api/v1/keys", &self.admin, Some(body))
            .await;
        made["key"].as_str().expect("the key is told").to_owned()
    }

    /// Runs `docket` with a key; its exit code, standard output and standard error.
    fn run(&self, key: &str, args: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_docket"))
            .args(args)
            .env("DOCKET_URL", &self.server.url)
            .env("DOCKET_KEY", key)
            .output()
            .expect("the program can be started");
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        let code = output.status.code().expect("the program was not killed");
        (code, text(output.stdout), text(output.stderr))
    }

    /// The same, which must succeed; what it printed.
    fn good(&self, key: &str, args: &[&str]) -> String {
        let (code, out, complaints) = self.run(key, args);
        assert_eq!(code, 0, "{args:?}: {out}{complaints}");
        out
    }

    fn json(&self, key: &str, args: &[&str]) -> Value {
        let out = self.good(key, &[args, &["--json"]].concat());
        serde_json::from_str(&out).expect("it prints JSON")
    }
}

#[tokio::test]
async fn a_reviewer_takes_decides_and_takes_back_in_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let desk = Desk::open(folder.path()).await;
    let (ann, bob) = (
        desk.key("reviewer", "ann").await,
        desk.key("reviewer", "bob").await,
    );
    let shown = desk.good(&ann, &["reviews", "pop", "desk"]);
    for word in ["unsure", "vendor", "\"Acne Corp\"", "token", "in review", "ann"] {
        assert!(shown.contains(word), "no {word} in:\n{shown}");
    }
    let held = desk.json(&ann, &["reviews", "list", "--assigned-to", "ann"]);
    let id = held["items"][0]["queueId"]
        .as_str()
        .expect("it is listed")
        .to_owned();
    let (code, _, complaint) = desk.run(&bob, &["reviews", "claim", &id]);
    assert_eq!(code, 1);
    assert!(
        complaint.contains("ann holds this review") && complaint.contains("held until"),
        "{complaint}"
    );
    let (code, out, _) = desk.run(&ann, &["reviews", "decide", &id, "corrected"]);
    assert_eq!(code, 1);
    assert!(out.contains("at least one field"), "{out}");
    let (code, _, complaint) = desk.run(&ann, &["reviews", "decide", &id, "maybe"]);
    assert_eq!(code, 2);
    assert!(complaint.contains("approved"), "{complaint}");
    let correct = [
        "reviews",
        "decide",
        &id,
        "corrected",
        "--set",
        "vendor=Acme Corp",
        "--token",
        "1",
    ];
    let out = desk.good(&ann, &correct);
    assert!(
        out.contains("is corrected") && out.contains("docket reviews undo"),
        "{out}"
    );
    assert!(desk.good(&ann, &correct).contains("nothing was changed"));
    let shown = desk.good(&bob, &["reviews", "show", &id]);
    assert!(
        shown.contains("\"Acme Corp\"") && shown.contains("ann (locked)"),
        "{shown}"
    );
    assert!(
        desk.good(&ann, &["reviews", "undo", &id])
            .contains("undecided again")
    );
    assert!(
        desk.good(&ann, &["reviews", "release", &id, "--skip", "--reason", "my own"])
            .contains("given back")
    );
    let (code, out, _) = desk.run(&ann, &["reviews", "release", &id]);
    assert_eq!(code, 1);
    assert!(out.contains("refused"), "{out}");
    let many = desk.good(&bob, &["reviews", "pop", "desk", "--limit", "5"]);
    assert!(
        many.contains("sure") && many.contains("so-so") && many.contains("docket reviews show"),
        "{many}"
    );
    let none = desk.good(&ann, &["reviews", "pop", "desk"]);
    assert!(
        none.starts_with("No review for you: ") && none.contains("3 in hands"),
        "{none}"
    );
    desk.server.stop();
}

#[tokio::test]
async fn a_lead_looks_after_the_queue_in_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let desk = Desk::open(folder.path()).await;
    let (ann, lead) = (desk.key("reviewer", "ann").await, desk.key("lead", "lea").await);
    let listed = desk.good(&lead, &["reviews", "list", "--collection", "desk"]);
    let place = |word: &str| listed.find(word).expect("it is listed");
    assert!(place("unsure") < place("so-so"), "{listed}");
    let popped = desk.json(&ann, &["reviews", "pop", "desk", "--limit", "2"]);
    let id = popped["items"][0]["queueId"].as_str().expect("there is one");
    let explained = desk.good(&lead, &["reviews", "explain", id]);
    for word in [
        "confidence",
        "deadline",
        "complexity",
        "value",
        "ann is looking at it",
    ] {
        assert!(explained.contains(word), "no {word} in:\n{explained}");
    }
    let put = [
        "reviewers",
        "put",
        "ann",
        "--name",
        "Ann",
        "--tenant",
        "acme",
        "--capacity",
        "4",
        "--unavailable",
    ];
    assert!(desk.good(&desk.admin, &put).contains("available  no"));
    assert!(desk.good(&desk.admin, &["reviewers", "list"]).contains("Ann"));
    let workload = desk.json(&lead, &["reviews", "workload", "desk"]);
    assert_eq!(
        (
            &workload["reviewers"][0]["inReview"],
            &workload["reviewers"][0]["available"]
        ),
        (&json!(2), &json!(false))
    );
    assert!(desk.good(&lead, &["reviews", "workload", "desk"]).contains("Ann"));
    assert!(
        desk.good(&lead, &["reviews", "reassign", id, "--to", "bob"])
            .starts_with("bob has review")
    );
    assert_eq!(
        desk.good(&lead, &["reviewers", "hand-on", "ann"]),
        "1 review of ann is handed on.\n"
    );
    let stats = desk.json(&lead, &["reviews", "stats", "desk"]);
    assert_eq!(
        (
            &stats["counts"]["pending"],
            &stats["counts"]["inReview"],
            &stats["depth"]
        ),
        (&json!(2), &json!(1), &json!(3))
    );
    let all = desk.good(&lead, &["reviews", "stats"]);
    assert!(all.contains("desk") && all.contains("docs"), "{all}");
    let (code, _, complaint) = desk.run(&ann, &["reviews", "reassign", id, "--to", "ann"]);
    assert_eq!(code, 1);
    assert!(complaint.contains("needs role lead"), "{complaint}");
    let reaped = desk.good(&desk.admin, &["reviews", "reap", "--older-than-seconds", "0"]);
    assert_eq!(reaped, "1 put back, 0 left to a lead.\n");
    desk.server.stop();
}

#[tokio::test]
async fn who_is_there_is_said_in_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let desk = Desk::open(folder.path()).await;
    let (ann, lead) = (desk.key("reviewer", "ann").await, desk.key("lead", "lea").await);
    let put = ["reviewers", "put", "ann", "--tenant", "acme", "--unavailable"];
    desk.good(&desk.admin, &put);
    desk.good(&ann, &["reviews", "pop", "desk"]);
    let back = desk.good(&ann, &["reviewers", "available", "ann"]);
    assert!(back.contains("available  yes"), "{back}");
    let more = desk.good(&lead, &["reviewers", "capacity", "ann", "7"]);
    assert!(more.contains("capacity   7"), "{more}");
    assert_eq!(
        desk.good(&lead, &["reviewers", "unavailable", "ann", "--hand-on"]),
        "1 review of ann is handed on.\n"
    );
    assert_eq!(
        desk.good(&lead, &["reviewers", "hand-on", "ann"]),
        "ann holds nothing that could be handed on.\n"
    );
    let (code, _, complaint) = desk.run(&ann, &["reviewers", "capacity", "ann", "9"]);
    assert_eq!(code, 1);
    assert!(complaint.contains("needs role lead"), "{complaint}");
    desk.server.stop();
}
