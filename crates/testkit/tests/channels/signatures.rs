//! Webhooks as receivers verify them, by the libraries that the specification's authors publish.

use std::process::Command;
use std::sync::Arc;

use docket_core::clock::SystemClock;
use docket_notify::webhook::{WebhookChannel, WebhookConfig};
use docket_notify::{Channel as _, Secret};
use docket_testkit::provider::{Effect, ProviderProcess};
use serde_json::json;

use crate::{frozen, installed};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDaGVsbG8=";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// What both libraries say of a request under each of these secrets.
fn verdicts(effect: &Effect, body: &str, secrets: &[&str]) -> Vec<String> {
    let case = |secret: &&str| {
        json!({ "secret": secret, "headers": effect.headers, "body": body }).to_string() + "\n"
    };
    let cases: String = secrets.iter().map(case).collect();
    let mut python = Command::new(installed::python());
    python.arg(installed::beside("verify.py"));
    let mut node = Command::new("node");
    node.arg(installed::beside("verify.mjs"))
        .arg(installed::node_modules());
    let by_python = installed::output(&mut python, cases.as_bytes());
    assert_eq!(
        by_python,
        installed::output(&mut node, cases.as_bytes()),
        "both libraries agree"
    );
    by_python.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_are_verified_by_the_published_libraries_also_while_secrets_change() {
    let folder = tempfile::tempdir().unwrap();
    let provider = ProviderProcess::start(
        env!("CARGO_BIN_EXE_docket-provider"),
        &folder.path().join("ledger"),
    )
    .await;
    let mut config = WebhookConfig::new(Secret::new(NEW));
    config.secrets.push(Secret::new(OLD));
    config.allow_private = true;
    let channel = WebhookChannel::new(config, Arc::new(SystemClock)).unwrap();
    let frozen = frozen(&channel, &provider.recipient(), "dlv_1");
    assert_eq!(channel.send(&frozen).await.as_str(), "accepted");
    let effects = provider.effects();
    let [effect] = &effects[..] else {
        panic!("the provider has one message");
    };
    assert_eq!(effect.headers["webhook-id"], "dlv_1");
    assert_eq!(effect.headers["content-type"], "application/json");
    assert_eq!(effect.body.as_bytes(), frozen.body);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&effect.body).unwrap(),
        json!({
            "type": "notification",
            "timestamp": "2026-09-21T14:13:20.000Z",
            "data": {
                "changelistId": "cl-7",
                "reviewVersion": 3,
                "subject": "Review 7 is done",
                "body": "It was approved.\n\nRegards\n",
            },
        })
    );
    assert_eq!(
        verdicts(effect, &effect.body, &[NEW, OLD, OTHER]),
        ["valid", "valid", "invalid"]
    );
    let forged = effect.body.replace("approved", "rejected");
    assert_eq!(verdicts(effect, &forged, &[NEW, OLD]), ["invalid", "invalid"]);
}
