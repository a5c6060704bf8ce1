//! Where in the dialogue a failure lands, and what it proves (rules N5 and N8).

use std::time::Duration;

use docket_notify::email::EmailChannel;
use docket_notify::{Channel as _, Sent};
use docket_testkit::mail_proxy::{MailCut, MailProxy};

use crate::frozen;
use crate::mail_server::{MailServer, Speech, config, plain_channel};

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_permanent_or_transient_by_its_code() {
    let server = MailServer::start(Speech::Plain, None).await;
    let channel = plain_channel(server.port);
    for (recipient, outcome, words) in [
        ("email:at-550@example.org", "permanent", "550"),
        ("email:at-450@example.org", "transient", "450"),
        ("email:after-554@example.org", "permanent", "554"),
        ("email:after-452@example.org", "transient", "452"),
    ] {
        let sent = channel.send(&frozen(&channel, recipient, "dlv_1")).await;
        assert_eq!(sent.as_str(), outcome, "{recipient} {sent:?}");
        assert!(sent.words().as_str().contains(words), "{sent:?}");
        assert!(!matches!(sent, Sent::Permanent { gone: true, .. }));
    }
    assert!(server.mails().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_before_the_end_of_the_data_was_not_sent() {
    let server = MailServer::start(Speech::Plain, None).await;
    for cut in [
        MailCut::Greeting,
        MailCut::Command("EHLO"),
        MailCut::Command("MAIL"),
        MailCut::Command("RCPT"),
        MailCut::Command("DATA"),
        MailCut::Data(10_000),
    ] {
        let proxy = MailProxy::before(server.port, cut).await;
        let channel = plain_channel(proxy.port);
        let mut frozen = frozen(&channel, "email:ann@example.org", "dlv_1");
        if matches!(cut, MailCut::Data(_)) {
            // More than sockets hold, so that the rest is still to be written when the connection breaks.
            frozen.body.extend(b"and so on\r\n".repeat(4 << 20));
        }
        let sent = channel.send(&frozen).await;
        assert_eq!(sent.as_str(), "not_sent", "{cut:?} {sent:?}");
    }
    assert!(server.mails().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_after_the_data_is_unknown() {
    let server = MailServer::start(Speech::Plain, None).await;
    for (number, cut) in [(1, MailCut::SwallowAnswer), (2, MailCut::WithholdAnswer)] {
        let proxy = MailProxy::before(server.port, cut).await;
        let mut config = config("smtp", "", proxy.port);
        if cut == MailCut::WithholdAnswer {
            config.timeout = Duration::from_secs(5);
        }
        let channel = EmailChannel::new(config).unwrap();
        let frozen = frozen(&channel, "email:ann@example.org", "dlv_1");
        let sent = channel.send(&frozen).await;
        assert_eq!(sent.as_str(), "unknown", "{cut:?} {sent:?}");
        assert_eq!(proxy.swallowed(), 1);
        // It was sent: this is why nobody may say that it was not.
        assert_eq!(server.mails().len(), number);
        assert_eq!(server.mails()[number - 1].1, frozen.body);
        assert_eq!(channel.lookup(&frozen.token).await.as_str(), "unknown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let channel = plain_channel(port);
    let sent = channel
        .send(&frozen(&channel, "email:ann@example.org", "dlv_1"))
        .await;
    assert_eq!(sent.as_str(), "not_sent", "{sent:?}");
}
