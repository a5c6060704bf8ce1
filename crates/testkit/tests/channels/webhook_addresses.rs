//! Webhooks that would lead into our own network (rule N10).

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use docket_core::clock::SystemClock;
use docket_notify::Channel as _;
use docket_notify::webhook::{Names, WebhookChannel};
use docket_testkit::provider::ProviderProcess;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::frozen;
use crate::webhook::{channel, provider, settings};

/// Resolves every name to the same addresses, or none, and counts.
#[derive(Clone, Debug, Default)]
struct Fixed {
    addresses: Vec<IpAddr>,
    asked: Arc<AtomicUsize>,
}

impl Fixed {
    fn new(addresses: &[&str]) -> Self {
        Self {
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            asked: Arc::default(),
        }
    }
}

impl Names for Fixed {
    fn resolve(&self, _host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let found = match self.addresses.is_empty() {
            true => Err(io::Error::other("there is no such name")),
            false => Ok(self.addresses.clone()),
        };
        std::future::ready(found).boxed()
    }
}

fn port(provider: &ProviderProcess) -> &str {
    provider.address().rsplit_once(':').unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_are_refused_however_they_are_written() {
    let (provider, _folder) = provider().await;
    let mut config = settings();
    config.allow_private = false;
    let channel = channel(config);
    let port = port(&provider);
    for host in [
        "169.254.169.254".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("2130706433:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::1]:{port}"),
        // A name that resolves to 127.0.0.1.
        format!("localhost:{port}"),
    ] {
        let sent = channel
            .send(&frozen(
                &channel,
                &format!("webhook:https://{host}/hook"),
                "dlv_1",
            ))
            .await;
        assert_eq!(sent.as_str(), "permanent", "{host} {sent:?}");
        assert!(sent.words().as_str().contains("public addresses"), "{sent:?}");
    }
    let sent = channel
        .send(&frozen(&channel, &provider.recipient(), "dlv_1"))
        .await;
    assert_eq!(sent.as_str(), "permanent", "plain http: {sent:?}");
    assert!(provider.effects().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_refused_for_one_private_address_among_public_ones() {
    let mut config = settings();
    config.allow_private = false;
    for addresses in [
        &["10.0.0.1"][..],
        &["1.1.1.1", "169.254.169.254"],
        &["2606:4700::1111", "fd00::1"],
    ] {
        let names = Arc::new(Fixed::new(addresses));
        let channel = WebhookChannel::with_names(config.clone(), Arc::new(SystemClock), names).unwrap();
        let sent = channel
            .send(&frozen(&channel, "webhook:https://receiver.example/", "dlv_1"))
            .await;
        assert_eq!(sent.as_str(), "permanent", "{addresses:?} {sent:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_that_was_checked_is_the_one_that_is_used() {
    let (provider, _folder) = provider().await;
    let names = Fixed::new(&["127.0.0.1"]);
    let channel =
        WebhookChannel::with_names(settings(), Arc::new(SystemClock), Arc::new(names.clone())).unwrap();
    let recipient = format!("webhook:http://receiver.example:{}/hook", port(&provider));
    for times in 1..=2 {
        let sent = channel.send(&frozen(&channel, &recipient, "dlv_1")).await;
        assert_eq!(sent.as_str(), "accepted", "{sent:?}");
        assert_eq!(
            names.asked.load(Ordering::SeqCst),
            times,
            "one question for each connection"
        );
    }
    let host = &provider.effects()[0].headers["host"];
    assert!(host.starts_with("receiver.example:"), "{host}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_knows_was_sent_nothing() {
    let names = Arc::new(Fixed::default());
    let channel = WebhookChannel::with_names(settings(), Arc::new(SystemClock), names).unwrap();
    let sent = channel
        .send(&frozen(&channel, "webhook:https://receiver.example/", "dlv_1"))
        .await;
    assert_eq!(sent.as_str(), "not_sent", "{sent:?}");
    assert!(sent.words().as_str().contains("no such name"), "{sent:?}");
}
