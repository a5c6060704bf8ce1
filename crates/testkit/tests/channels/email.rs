//! Mails that arrive: what a reader sees of them, encryption and login.

use std::process::Command;

use docket_core::notify::{OnUnknown, Recipient};
use docket_notify::email::{EmailChannel, Encryption};
use docket_notify::{Channel as _, Sent};
use serde_json::Value;

use crate::mail_server::{MailServer, Speech, config, plain_channel};
use crate::{frozen, installed, message_of, token};

fn parsed(mail: &[u8]) -> Value {
    let mut command = Command::new(installed::python());
    let said = installed::output(command.arg(installed::beside("parse_mail.py")), mail);
    serde_json::from_str(&said).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_says_to_its_reader_what_the_message_said() {
    let server = MailServer::start(Speech::Plain, None).await;
    let channel = plain_channel(server.port);
    assert_eq!(channel.abilities().lookup, None);
    assert_eq!(channel.abilities().on_unknown, OnUnknown::Hold);
    let subject = format!("Prüfung „7“ ✓ {}wirklich.", "ist abgeschlossen, ".repeat(8));
    let body = "Grüße aus 東京.\n.\n..\nFrom the start\n\n<b>1 & 2</b> \u{1f600}\n";
    let recipient = Recipient::parse("email:ann.b+7@example.org").unwrap();
    let frozen = channel
        .render(&message_of(&subject, body), &recipient, &token("dlv_7"))
        .unwrap();
    match channel.send(&frozen).await {
        Sent::Accepted { id, words } => {
            assert_eq!(id, "<dlv_7@example.com>");
            assert_eq!(words.as_str(), "250 OK queued as 1");
        }
        other => panic!("{other:?}"),
    }
    let [(envelope, data)] = &server.mails()[..] else {
        panic!("one mail arrives");
    };
    assert_eq!(envelope["from"], "docket@example.com");
    assert_eq!(envelope["to"], serde_json::json!(["ann.b+7@example.org"]));
    assert_eq!(*data, frozen.body, "the server has the frozen bytes");
    let mail = parsed(data);
    assert_eq!(mail["defects"], serde_json::json!([]));
    assert_eq!(mail["subject"], subject);
    assert_eq!(mail["from"]["name"], "Dökét, Inc.");
    assert_eq!(mail["from"]["address"], "docket@example.com");
    assert_eq!(mail["to"], serde_json::json!(["ann.b+7@example.org"]));
    assert_eq!(mail["date"], "2026-09-21T14:13:20+00:00");
    assert_eq!(mail["messageId"], "<dlv_7@example.com>");
    assert_eq!(mail["autoSubmitted"], "auto-generated");
    assert_eq!(mail["type"], "multipart/alternative");
    let text = mail["text"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(text.trim_end(), body.trim_end());
    let html = mail["html"].as_str().unwrap();
    assert!(
        html.contains("Grüße aus 東京.<br>") && html.contains("&#60;b&#62;1 &#38; 2&#60;/b&#62; \u{1f600}"),
        "{html}"
    );
    let expected = [
        "auto-submitted",
        "content-type",
        "date",
        "from",
        "message-id",
        "mime-version",
        "subject",
        "to",
    ];
    assert_eq!(mail["headers"], serde_json::json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_is_encrypted_by_starttls_or_tls_and_logged_in() {
    for (speech, scheme) in [(Speech::StartTls, "smtp"), (Speech::Tls, "smtps")] {
        let server = MailServer::start(speech, Some("ann:p@ss w√rd")).await;
        let mut config = config(scheme, "ann:p%40ss%20w%E2%88%9Ard@", server.port);
        config.trusted_pem = Some(server.authority());
        config.encryption = Encryption::Required;
        let channel = EmailChannel::new(config).unwrap();
        let sent = channel
            .send(&frozen(&channel, "email:ann@example.org", "dlv_1"))
            .await;
        assert_eq!(sent.as_str(), "accepted", "{scheme} {sent:?}");
        let (envelope, _) = &server.mails()[0];
        assert_eq!(
            (envelope["tls"].as_bool(), envelope["login"].as_bool()),
            (Some(true), Some(true))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_trust_encryption_or_the_right_password_nothing_is_sent() {
    let encrypted = MailServer::start(Speech::StartTls, Some("ann:right")).await;
    let plain = MailServer::start(Speech::Plain, Some("ann:right")).await;
    let mut channels = Vec::new();
    // A certificate of nobody that this machine trusts.
    channels.push(config("smtp", "ann:right@", encrypted.port));
    let mut wrong = config("smtp", "ann:wrong@", encrypted.port);
    wrong.trusted_pem = Some(encrypted.authority());
    channels.push(wrong);
    let mut required = config("smtp", "ann:right@", plain.port);
    required.encryption = Encryption::Required;
    channels.push(required);
    // TLS to a server that does not speak it.
    channels.push(config("smtps", "ann:right@", plain.port));
    for config in channels {
        let channel = EmailChannel::new(config).unwrap();
        let sent = channel
            .send(&frozen(&channel, "email:ann@example.org", "dlv_1"))
            .await;
        assert_eq!(sent.as_str(), "not_sent", "{sent:?}");
        let said = format!("{channel:?} {sent:?}");
        assert!(!said.contains("right") && !said.contains("wrong"), "{said}");
    }
    assert!(encrypted.mails().is_empty() && plain.mails().is_empty());
    // To this machine a password may go in the clear.
    let channel = EmailChannel::new(config("smtp", "ann:right@", plain.port)).unwrap();
    let sent = channel
        .send(&frozen(&channel, "email:ann@example.org", "dlv_1"))
        .await;
    assert_eq!(sent.as_str(), "accepted", "{sent:?}");
}
