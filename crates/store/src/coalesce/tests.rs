//! Batches are as large as they can be, and none is in another's way.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::turn::{BYTES_MAX, SHORT_BYTES_MAX, SHORT_MAX};
use super::*;

#[tokio::test]
async fn calls_that_arrive_together_ride_together() {
    let batches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&batches);
    let coalescer = Arc::new(Coalescer::start(
        "test",
        1,
        Turns::any(),
        |_| Weight::of(1),
        move |calls: Vec<u32>| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                Ok(calls.into_iter().map(|n| n * 2).collect())
            })
        },
    ));
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let coalescer = Arc::clone(&coalescer);
            tokio::spawn(async move { coalescer.call(n).await.unwrap() })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap() as usize, n * 2);
    }
    assert!(batches.load(Ordering::SeqCst) < 10);
}

const STUCK: usize = 0;

/// A coalescer of two runners whose calls are answered with the size of their batch; where one of them is stuck, once somebody opens
/// the gate.
fn gated(gate: &Arc<Notify>, turns: &Turns, weigh: fn(&usize) -> Weight) -> Arc<Coalescer<usize, usize>> {
    let gate = Arc::clone(gate);
    Arc::new(Coalescer::start(
        "test",
        2,
        turns.clone(),
        weigh,
        move |calls: Vec<usize>| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                if calls.contains(&STUCK) {
                    gate.notified().await;
                }
                Ok(vec![calls.len(); calls.len()])
            })
        },
    ))
}

async fn begun(coalescer: &Arc<Coalescer<usize, usize>>, call: usize) -> JoinHandle<usize> {
    let coalescer = Arc::clone(coalescer);
    let call = tokio::spawn(async move { coalescer.call(call).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(1)).await;
    call
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_a_short_one_but_not_for_one_that_is_stuck() {
    let gate = Arc::new(Notify::new());
    for turns in [Turns::one_at_a_time(), Turns::any()] {
        // Too long to have a turn, and short enough to be waited for by its own kind.
        let coalescer = gated(&gate, &turns, |_| Weight::of(SHORT_MAX / 2 + 1));
        let stuck = begun(&coalescer, STUCK).await;
        let second = begun(&coalescer, 1).await;
        assert!(!second.is_finished(), "it waits for the one that runs");
        assert_eq!(second.await.unwrap(), 1);
        assert!(!stuck.is_finished());
        // Nobody waits for it any more.
        assert!(begun(&coalescer, 1).await.is_finished());
        gate.notify_one();
        assert_eq!(stuck.await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_batch_that_holds_much() {
    let gate = Arc::new(Notify::new());
    let coalescer = gated(&gate, &Turns::one_at_a_time(), |call| Weight {
        entries: 1,
        bytes: if *call == STUCK { SHORT_BYTES_MAX + 1 } else { 0 },
    });
    let stuck = begun(&coalescer, STUCK).await;
    assert!(begun(&coalescer, 1).await.is_finished());
    gate.notify_one();
    stuck.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn very_short_batches_of_all_kinds_take_turns_but_no_other_batch_is_in_their_way() {
    let (gate, turns) = (Arc::new(Notify::new()), Turns::one_at_a_time());
    let (one, other) = (
        gated(&gate, &turns, |_| Weight::of(1)),
        gated(&gate, &turns, |_| Weight::of(1)),
    );
    let stuck = begun(&one, STUCK).await;
    let (first, second) = (begun(&other, 1).await, begun(&other, 2).await);
    assert!(!first.is_finished(), "it waits for the other kind");
    gate.notify_one();
    assert_eq!(stuck.await.unwrap(), 1);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (2, 2));

    // One that takes long is not waited for any longer, and gives its turn back all the same.
    let stuck = begun(&one, STUCK).await;
    assert_eq!(begun(&other, 1).await.await.unwrap(), 1);
    assert!(!stuck.is_finished());
    assert!(begun(&other, 1).await.is_finished(), "and keeps nobody else");
    gate.notify_one();
    stuck.await.unwrap();

    // A large one leaves its turn to the others while it runs.
    let large = gated(&gate, &turns, |_| Weight::of(VERY_SHORT_MAX + 1));
    let stuck = begun(&large, STUCK).await;
    assert_eq!(turns.0.as_ref().unwrap().available_permits(), 1);
    gate.notify_one();
    stuck.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_batch_ends_with_its_bytes_as_with_its_entries() {
    let gate = Arc::new(Notify::new());
    let weigh = |bytes: &usize| Weight {
        entries: 1,
        bytes: *bytes,
    };
    let coalescer = gated(&gate, &Turns::one_at_a_time(), weigh);
    let mut calls = vec![begun(&coalescer, STUCK).await];
    for _ in 0..5 {
        calls.push(begun(&coalescer, BYTES_MAX / 2).await);
    }
    gate.notify_one();
    let mut sizes = Vec::new();
    for call in calls {
        sizes.push(call.await.unwrap());
    }
    assert_eq!(sizes, [1, 2, 2, 2, 2, 1]);
}

#[tokio::test]
async fn what_may_have_happened_is_not_tried_again() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let coalescer = Arc::new(Coalescer::start(
        "test",
        1,
        Turns::any(),
        |_| Weight::of(1),
        move |calls: Vec<u32>| {
            counted.fetch_add(calls.len(), Ordering::SeqCst);
            Box::pin(async move {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                Err::<Vec<u32>, _>(Error::UnknownCommit {
                    operation: "test",
                    reason: "nobody was asked",
                })
            })
        },
    ));
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let coalescer = Arc::clone(&coalescer);
            tokio::spawn(async move { coalescer.call(n).await })
        })
        .collect();
    for call in calls {
        let said = call.await.unwrap();
        assert!(
            matches!(
                said,
                Err(Error::UnknownCommit {
                    operation: "test",
                    ..
                })
            ),
            "{said:?}"
        );
    }
    assert_eq!(runs.load(Ordering::SeqCst), 20);
}

#[tokio::test]
async fn a_call_that_fails_spoils_only_its_own() {
    let coalescer = Arc::new(Coalescer::start(
        "test",
        1,
        Turns::any(),
        |_| Weight::of(1),
        |calls: Vec<u32>| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                if calls.contains(&7) {
                    Err(Error::Open("seven".into()))
                } else {
                    Ok(calls)
                }
            })
        },
    ));
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let coalescer = Arc::clone(&coalescer);
            tokio::spawn(async move { coalescer.call(n).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().is_ok(), n != 7, "{n}");
    }
}

#[tokio::test]
async fn what_is_the_databases_trouble_is_told_to_everybody_in_the_same_words() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let coalescer = Arc::new(Coalescer::start(
        "test",
        1,
        Turns::any(),
        |_| Weight::of(1),
        move |calls: Vec<u32>| {
            counted.fetch_add(calls.len(), Ordering::SeqCst);
            Box::pin(async move {
                tokio::task::yield_now().await;
                let refused = std::io::Error::other("nobody is there");
                Err::<Vec<u32>, _>(Error::no_connection(&refused, true))
            })
        },
    ));
    let said = futures_util::future::join_all((0..20).map(|n| coalescer.call(n))).await;
    for said in said {
        let said = said.unwrap_err();
        assert!(said.is_transient(), "{said:?}");
        let words = "no connection to PostgreSQL could be had: nobody is there";
        assert_eq!(said.to_string(), words);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 20);
}
