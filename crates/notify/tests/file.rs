//! The file channel: whole lines, on the disk, found again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use docket_core::Timestamp;
use docket_core::notify::{DeliveryToken, Message, Recipient};
use docket_notify::file::FileChannel;
use docket_notify::{Channel, Frozen, Sent};
use serde_json::{Value, json};

fn frozen(channel: &FileChannel, token: &str) -> Frozen {
    let message = Message::new(
        "cl-7",
        3,
        "Done",
        "Two\nlines\n",
        Timestamp::from_ms(1_790_000_000_000),
    )
    .unwrap();
    let recipient = Recipient::parse("file:legal").unwrap();
    let token = DeliveryToken::new(token).unwrap();
    channel.render(&message, &recipient, &token).unwrap()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_delivery_is_a_line_that_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/outbox.jsonl");
    let channel = FileChannel::new(&path, true);
    let frozen = frozen(&channel, "dlv_1");
    assert_eq!(channel.lookup(&frozen.token).await.as_str(), "absent");
    match channel.send(&frozen).await {
        Sent::Accepted { id, .. } => assert_eq!(id, "dlv_1"),
        other => panic!("{other:?}"),
    }
    let line = json!({
        "token": "dlv_1",
        "recipient": "file:legal",
        "changelistId": "cl-7",
        "reviewVersion": 3,
        "subject": "Done",
        "body": "Two\nlines\n",
        "createdAt": "2026-09-21T14:13:20.000Z",
    });
    assert_eq!(lines(&path), [line]);
    assert_eq!(channel.lookup(&frozen.token).await.as_str(), "found");
    // A token that is a part of another, or of a text, is not that token.
    for other in ["dlv_", "legal", "dlv_11"] {
        let other = DeliveryToken::new(other).unwrap();
        assert_eq!(channel.lookup(&other).await.as_str(), "absent");
    }
}

#[tokio::test]
async fn a_torn_last_line_does_not_count_and_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.jsonl");
    let channel = FileChannel::new(&path, true);
    let (first, second) = (frozen(&channel, "dlv_1"), frozen(&channel, "dlv_2"));
    for kept in [1, second.body.len() / 2, second.body.len() - 1] {
        fs::remove_file(&path).ok();
        channel.send(&first).await;
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&second.body[..kept]).unwrap();
        assert_eq!(channel.lookup(&second.token).await.as_str(), "absent", "{kept}");
        assert_eq!(channel.lookup(&first.token).await.as_str(), "found");
        assert_eq!(channel.send(&second).await.as_str(), "accepted");
        let tokens: Vec<_> = lines(&path).iter().map(|line| line["token"].clone()).collect();
        assert_eq!(tokens, ["dlv_1", "dlv_2"], "{kept}");
    }
    // Also a torn line that is longer than what is read at once, and one that is all there is.
    fs::write(&path, "x".repeat(200_000)).unwrap();
    assert_eq!(channel.send(&first).await.as_str(), "accepted");
    assert_eq!(lines(&path).len(), 1);
}

#[test]
fn a_send_that_was_given_up_while_it_waited_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.jsonl");
    let channel = FileChannel::new(&path, true);
    let (first, late) = (frozen(&channel, "dlv_1"), frozen(&channel, "dlv_2"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let locked = runtime.block_on(async {
        assert_eq!(channel.send(&first).await.as_str(), "accepted");
        let other = OpenOptions::new().append(true).open(&path).unwrap();
        other.lock().unwrap();
        let mut send = channel.send(&late);
        assert!(futures_util::poll!(&mut send).is_pending());
        // Blocking work begins in turn: when this has run, the send has begun, and waits for the lock.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        drop(send);
        other
    });
    drop(locked);
    // This waits for what has begun.
    drop(runtime);
    let tokens: Vec<_> = lines(&path).iter().map(|line| line["token"].clone()).collect();
    assert_eq!(tokens, ["dlv_1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_share_a_file_without_mixing_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outbox.jsonl");
    let writer = |writer: usize| {
        let channel = FileChannel::new(&path, true);
        async move {
            for n in 0..20 {
                let frozen = frozen(&channel, &format!("dlv_{writer}-{n}"));
                assert_eq!(channel.send(&frozen).await.as_str(), "accepted");
                assert_eq!(channel.lookup(&frozen.token).await.as_str(), "found");
            }
        }
    };
    let writers: Vec<_> = (0..8).map(|n| tokio::spawn(writer(n))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(lines(&path).len(), 160);
}

#[tokio::test]
async fn what_cannot_be_written_was_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let channel = FileChannel::new(folder.path(), true);
    let frozen = frozen(&channel, "dlv_1");
    assert_eq!(channel.send(&frozen).await.as_str(), "not_sent");
    assert_eq!(channel.lookup(&frozen.token).await.as_str(), "unknown");
}

#[tokio::test]
async fn a_file_that_holds_only_some_deliveries_cannot_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let channel = FileChannel::new(folder.path().join("outbox.jsonl"), false);
    assert_eq!(channel.abilities().lookup, None);
    let frozen = frozen(&channel, "dlv_1");
    channel.send(&frozen).await;
    assert_eq!(channel.lookup(&frozen.token).await.as_str(), "unknown");
}
