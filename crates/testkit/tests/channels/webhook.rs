//! Webhooks to a provider that misbehaves: what each answer means, and what was really done.

use std::sync::Arc;
use std::time::Duration;

use docket_core::clock::{Clock, SystemClock};
use docket_core::notify::WebhookUrl;
use docket_notify::webhook::{WebhookChannel, WebhookConfig};
use docket_notify::{Channel as _, Found, Secret, Sent};
use docket_testkit::provider::{Control, Mode, ProviderProcess};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::mail_server::{MailServer, Speech};
use crate::{frozen, token};

pub(crate) fn settings() -> WebhookConfig {
    let mut config = WebhookConfig::new(Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    config.allow_private = true;
    config
}

pub(crate) fn channel(config: WebhookConfig) -> WebhookChannel {
    WebhookChannel::new(config, Arc::new(SystemClock)).unwrap()
}

pub(crate) async fn provider() -> (ProviderProcess, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let provider = ProviderProcess::start(env!("CARGO_BIN_EXE_docket-provider"), &ledger).await;
    (provider, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_no_more_than_the_provider_did() {
    let (provider, _folder) = provider().await;
    let channel = channel(settings());
    for (mode, outcome) in [
        (Mode::Accept, "accepted"),
        (Mode::AcceptPlainly, "accepted"),
        (Mode::AcceptThenReset, "unknown"),
        (Mode::AcceptThenFail, "unknown"),
        (Mode::AcceptThenBabble, "unknown"),
        (Mode::Reset, "unknown"),
        (Mode::Fail, "unknown"),
        (Mode::RateLimit, "transient"),
        (Mode::Refuse, "permanent"),
        (Mode::Gone, "permanent"),
        (Mode::Redirect, "permanent"),
    ] {
        // If a redirect were followed, or a request repeated, the second one would be taken.
        let mut control = Control::default();
        control.next.push_back(mode);
        provider.control(&control).await;
        let before = provider.effects().len();
        let frozen = frozen(&channel, &provider.recipient(), "dlv_1");
        let sent = channel.send(&frozen).await;
        assert_eq!(sent.as_str(), outcome, "{mode:?} {sent:?}");
        assert_eq!(
            provider.effects().len() - before,
            usize::from(mode.takes()),
            "{mode:?}"
        );
        assert_eq!(
            matches!(sent, Sent::Permanent { gone: true, .. }),
            mode == Mode::Gone
        );
        match (mode, sent) {
            (Mode::Accept, Sent::Accepted { id, .. }) => assert_eq!(id, "msg-1"),
            (Mode::AcceptPlainly, Sent::Accepted { id, words }) => {
                assert_eq!((id.as_str(), words.as_str()), ("dlv_1", "200 OK <p>Thank you!"));
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_does_not_answer_leaves_it_unknown() {
    let (provider, _folder) = provider().await;
    let mut config = settings();
    config.timeout = Duration::from_secs(3);
    let channel = channel(config);
    let mut control = Control::default();
    control.next.extend([Mode::Hang, Mode::AcceptThenHang]);
    provider.control(&control).await;
    let (one, two) = (
        frozen(&channel, &provider.recipient(), "dlv_1"),
        frozen(&channel, &provider.recipient(), "dlv_2"),
    );
    let (one, two) = tokio::join!(channel.send(&one), channel.send(&two));
    assert_eq!((one.as_str(), two.as_str()), ("unknown", "unknown"));
    assert_eq!(provider.effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_handed_on() {
    let (provider, _folder) = provider().await;
    let channel = channel(settings());
    let frozen = frozen(&channel, &provider.recipient(), "dlv_1");
    let in_an_hour = SystemClock.now().plus_ms(3_600_000);
    for (header, mode) in [
        (Some("17".to_owned()), Mode::RateLimit),
        (Some("17".to_owned()), Mode::Fail),
        (Some(http_date(in_an_hour.ms())), Mode::RateLimit),
        (Some("soon".to_owned()), Mode::RateLimit),
        (None, Mode::RateLimit),
    ] {
        let mut control = Control::always(mode);
        control.retry_after.clone_from(&header);
        provider.control(&control).await;
        let waits = match channel.send(&frozen).await {
            Sent::Transient { retry_after, .. } | Sent::Unknown { retry_after, .. } => retry_after,
            other => panic!("{other:?}"),
        };
        match header.as_deref() {
            Some("17") => assert_eq!(waits, Some(Duration::from_secs(17))),
            Some("soon") | None => assert_eq!(waits, None),
            Some(_) => {
                let waits = waits.expect("a date is read");
                assert!(
                    waits <= Duration::from_secs(3600) && waits > Duration::from_secs(1800),
                    "{waits:?}"
                );
            }
        }
    }
}

fn http_date(ms: i64) -> String {
    let since_epoch = Duration::from_millis(ms.try_into().unwrap());
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + since_epoch)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_tells_what_the_ledger_says_once_it_shows() {
    let (provider, _folder) = provider().await;
    let mut config = settings();
    assert_eq!(
        channel(config.clone()).lookup(&token("dlv_1")).await.as_str(),
        "unknown"
    );
    assert_eq!(channel(config.clone()).abilities().lookup, None);
    config.lookup = Some(WebhookUrl::parse(&provider.lookup_url()).unwrap());
    config.lookup_lag = Duration::from_secs(60);
    let channel = channel(config);
    assert_eq!(channel.abilities().lookup.unwrap().lag, Duration::from_secs(60));
    provider.control(&Control::always(Mode::AcceptThenReset)).await;
    let frozen = frozen(&channel, &provider.recipient(), "dlv_1");
    assert_eq!(channel.send(&frozen).await.as_str(), "unknown");
    for (control, found) in [
        (Control::default(), "found"),
        (
            Control {
                lookup_delay_ms: 200,
                ..Control::default()
            },
            "found",
        ),
        (
            Control {
                lookup_lag_ms: 3_600_000,
                ..Control::default()
            },
            "absent",
        ),
        (
            Control {
                lookup_fails: true,
                ..Control::default()
            },
            "unknown",
        ),
        (
            Control {
                lookup_babbles: true,
                ..Control::default()
            },
            "unknown",
        ),
    ] {
        provider.control(&control).await;
        let answer = channel.lookup(&frozen.token).await;
        assert_eq!(answer.as_str(), found, "{answer:?}");
        if let Found::Found { id, .. } = answer {
            assert_eq!(id, "msg-1");
        }
    }
    provider.control(&Control::default()).await;
    assert_eq!(channel.lookup(&token("dlv_2")).await.as_str(), "absent");
    provider.kill().await;
    assert_eq!(channel.lookup(&frozen.token).await.as_str(), "unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_keeps_its_ledger_and_dedupes_where_it_is_told_to() {
    let (provider, folder) = provider().await;
    let channel = channel(settings());
    let frozen = frozen(&channel, &provider.recipient(), "dlv_1");
    assert_eq!(channel.send(&frozen).await.as_str(), "accepted");
    let address = provider.address().to_owned();
    provider.kill().await;
    assert_eq!(channel.send(&frozen).await.as_str(), "not_sent");
    let program = env!("CARGO_BIN_EXE_docket-provider");
    let provider = ProviderProcess::start_on(program, &folder.path().join("ledger"), &address).await;
    for (dedupe, effects) in [(true, 1), (false, 2)] {
        provider
            .control(&Control {
                dedupe,
                ..Control::default()
            })
            .await;
        assert_eq!(channel.send(&frozen).await.as_str(), "accepted");
        assert_eq!(provider.effects().len(), effects);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_that_fails_is_not_sent_and_babble_within_it_is_unknown() {
    // A mail server over TLS is a server whose certificate can be trusted and whose answers are not HTTP.
    let server = MailServer::start(Speech::Tls, None).await;
    let recipient = format!("webhook:https://localhost:{}/", server.port);
    let strangers = channel(settings());
    let sent = strangers.send(&frozen(&strangers, &recipient, "dlv_1")).await;
    assert_eq!(sent.as_str(), "not_sent", "{sent:?}");
    let mut config = settings();
    config.trusted_pem = Some(server.authority());
    let trusting = channel(config);
    let sent = trusting.send(&frozen(&trusting, &recipient, "dlv_1")).await;
    assert_eq!(sent.as_str(), "unknown", "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_is_read_only_so_far() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let recipient = format!("webhook:http://{}/", listener.local_addr().unwrap());
    let endless = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        while stream.write_all(chunk.as_bytes()).await.is_ok() {}
    });
    let channel = channel(settings());
    let sent = channel.send(&frozen(&channel, &recipient, "dlv_1")).await;
    assert_eq!(sent.as_str(), "accepted", "{sent:?}");
    assert!(sent.words().as_str().chars().count() <= docket_notify::WORDS_MAX + 1);
    endless.await.unwrap();
}
