//! In which order reviews are offered, and why there are none (rules V2 to V5, V8, V12, V13).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Timestamp;
use docket_core::clock::Clock as _;
use docket_core::item::ItemDetails;
use docket_core::priority::{Band, SlaLevel};
use docket_core::random::{Random as _, SeededRandom};
use docket_core::review::{Outcome, ReviewState, Strategy};
use docket_core::scope::Watching;
use docket_engine::{EmptyReason, LogQuery, PauseTarget, Pop, Popped, ReviewFilter};
use docket_testkit::desk::{decision, reviewer};
use docket_testkit::{World, names, on_both};
use serde_json::json;

const HOUR_MS: i64 = 3_600_000;

fn pop(limit: u32) -> Pop {
    Pop {
        collection: names::collection("acme"),
        limit,
        strategy: None,
        lock_timeout_ms: None,
        wait_ms: 0,
    }
}

async fn popped(world: &World, who: &str, pop: Pop) -> Popped {
    let who = reviewer("acme", who);
    let popped = world.engine.review_pop(&who, pop, std::future::pending()).await;
    popped.unwrap()
}

fn names_of(popped: &Popped) -> Vec<&str> {
    popped
        .entries
        .iter()
        .filter_map(|entry| entry.external_id.as_deref())
        .collect()
}

/// Five items whose three orders differ.
async fn five(world: &World) {
    let now = world.clock.now();
    for (name, confidence, hours) in [
        ("a", 90.0, 20),
        ("b", 20.0, 23),
        ("c", 60.0, 2),
        ("d", 95.0, 1),
        ("e", 50.0, 30),
    ] {
        let details = ItemDetails {
            confidence: Some(confidence),
            deadline: Some(now.plus_ms(hours * HOUR_MS)),
            ..ItemDetails::default()
        };
        world.submit_with("acme", name, details).await;
        world.pass_ms(1);
    }
}

async fn give_all_back(world: &World, who: &str, popped: &Popped) {
    for entry in &popped.entries {
        world
            .give_back("acme", who, entry.review.id, false)
            .await
            .unwrap();
    }
}

on_both! {
    async fn v5_each_strategy_has_its_order(world: &World) {
        world.desk("acme", json!({})).await;
        five(world).await;
        // Points: a 4 + 5, b 32 + 1.25, c 16 + 27.5, d 2 + 28.75, e 20 - 7.5.
        for (strategy, order) in [
            (Some(Strategy::Fifo), ["a", "b", "c", "d", "e"]),
            (Some(Strategy::Deadline), ["d", "c", "a", "b", "e"]),
            (Some(Strategy::Priority), ["c", "b", "d", "e", "a"]),
            (None, ["c", "b", "d", "e", "a"]),
        ] {
            let got = popped(world, "ann", Pop { strategy, ..pop(10) }).await;
            assert_eq!(names_of(&got), order, "{strategy:?}");
            give_all_back(world, "ann", &got).await;
        }
        for strategy in ["fifo", "deadline"] {
            world.review_policy("acme", json!({ "strategy": strategy })).await;
            let got = popped(world, "ann", pop(1)).await;
            assert_eq!(names_of(&got), [if strategy == "fifo" { "a" } else { "d" }]);
            give_all_back(world, "ann", &got).await;
        }
    }

    async fn v5_a_call_of_many_keeps_their_order(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo" })).await;
        world.submit_many("acme", "x", 40).await;
        let got = popped(world, "ann", pop(40)).await;
        let expected: Vec<_> = (0..40).map(|index| format!("x-{index}")).collect();
        assert_eq!(names_of(&got), expected);
    }

    async fn v5_up_to_as_many_as_are_asked_for_come_at_once(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo" })).await;
        world.submit_many("acme", "x", 5).await;
        assert_eq!(names_of(&popped(world, "ann", pop(2)).await), ["x-0", "x-1"]);
        assert_eq!(names_of(&popped(world, "bob", pop(200)).await), ["x-2", "x-3", "x-4"]);
        for limit in [0, 201] {
            let refused = world.engine.review_pop(&reviewer("acme", "ann"), pop(limit), std::future::pending()).await;
            assert_eq!(refused.unwrap_err().refusal().unwrap().code(), "validation_failed", "{limit}");
        }
    }

    async fn v5_a_pop_goes_by_how_the_collection_is_now(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo" })).await;
        five(world).await;
        let look = async |who: &str| {
            let popped = popped(world, who, pop(1)).await;
            give_all_back(world, who, &popped).await;
            (names_of(&popped).join(" "), popped.empty.map(|empty| empty.reason))
        };
        let given = |name: &str| (name.to_owned(), None);
        let nothing = |reason| (String::new(), Some(reason));
        for _ in 0..2 {
            assert_eq!(look("ann").await, given("a"), "the first that came");
        }
        // What the server knew of the collection is no longer so.
        world.review_policy("acme", json!({ "strategy": "deadline" })).await;
        assert_eq!(look("ann").await, given("d"), "the first that is due");
        let target = PauseTarget::Collection(names::collection("acme"));
        let pause = world.engine.pause(&World::operator(), target, "audit").await.unwrap();
        assert_eq!(look("ann").await, nothing(EmptyReason::Paused));
        world.engine.resume(&World::operator(), pause).await.unwrap();
        assert_eq!(look("ann").await, given("d"));
        world.review_policy("acme", json!({ "strategy": "deadline", "roster": ["bob"] })).await;
        assert_eq!(look("ann").await, nothing(EmptyReason::NotPermitted));
        assert_eq!(look("bob").await, given("d"));
        world.reviewer("bob", true, Some(1)).await;
        let held = popped(world, "bob", pop(5)).await;
        assert_eq!(names_of(&held), ["d"], "he may hold one");
        assert_eq!(look("bob").await, nothing(EmptyReason::NotPermitted));
        give_all_back(world, "bob", &held).await;
        assert_eq!(look("bob").await, given("d"));
    }

    async fn v2_an_overdue_review_comes_before_all_fresh_ones_of_its_kind(world: &World) {
        world.desk("acme", json!({ "slaHours": 2 })).await;
        let kind = || ItemDetails { confidence: Some(80.0), line_item_count: Some(5), ..ItemDetails::default() };
        world.submit_with("acme", "old", kind()).await;
        world.pass_ms(2 * HOUR_MS + 1);
        for n in 0..5 {
            world.submit_with("acme", &format!("fresh {n}"), kind()).await;
            world.pass_ms(1);
        }
        let got = popped(world, "ann", pop(1)).await;
        assert_eq!(names_of(&got), ["old"]);
        assert_eq!(got.entries[0].sla, SlaLevel::Overdue);
        assert!(got.entries[0].parts.deadline > 30.0, "it goes on growing");
    }

    async fn v2_the_order_of_pops_is_the_order_of_scores_whenever_one_looks(world: &World) {
        let random = SeededRandom::new(7);
        let draw = |below: u64| i64::try_from(random.next_u64() % below).unwrap();
        world
            .desk("acme", json!({ "slaHours": 8, "weights": { "confidence": 35, "deadline": 25, "complexity": 25, "value": 15 } }))
            .await;
        for n in 0..60 {
            let now = world.clock.now();
            let details = ItemDetails {
                confidence: Some(draw(101) as f64),
                line_item_count: Some(u32::try_from(draw(200)).unwrap()),
                total_amount: Some(draw(20_000) as f64),
                deadline: (n % 3 == 0).then(|| now.plus_ms(draw(20) * HOUR_MS - 3 * HOUR_MS)),
                ..ItemDetails::default()
            };
            world.submit_with("acme", &format!("item {n}"), details).await;
            world.pass_ms(draw(900_000));
        }
        let mut last: Option<Vec<String>> = None;
        for _ in 0..4 {
            let got = popped(world, "ann", pop(200)).await;
            let scores: Vec<_> = got.entries.iter().map(|entry| entry.parts.total()).collect();
            assert!(scores.is_sorted_by(|a, b| *a >= b - 1e-5), "{scores:?}");
            for entry in &got.entries {
                assert_eq!(entry.band, Band::of(entry.parts.score()));
            }
            let names: Vec<_> = names_of(&got).into_iter().map(str::to_owned).collect();
            assert_eq!(names.len(), 60);
            assert!(last.is_none_or(|last| last == names), "waiting changes no order");
            last = Some(names);
            give_all_back(world, "ann", &got).await;
            world.pass_ms(5 * HOUR_MS);
        }
    }

    async fn v4_a_review_is_due_after_its_collections_time_or_as_it_is_said(world: &World) {
        world.desk("acme", json!({ "slaHours": 8 })).await;
        let began = world.clock.now();
        world.submit_one("acme", "usual").await;
        let given = Some(began.plus_ms(HOUR_MS));
        world.submit_with("acme", "given", ItemDetails { deadline: given, ..ItemDetails::default() }).await;
        let got = popped(world, "ann", Pop { strategy: Some(Strategy::Fifo), ..pop(2) }).await;
        let due: Vec<Timestamp> = got.entries.iter().map(|entry| entry.review.inputs.deadline).collect();
        assert_eq!(due, [began.plus_ms(8 * HOUR_MS), began.plus_ms(HOUR_MS)]);
        assert_eq!([got.entries[0].sla, got.entries[1].sla], [SlaLevel::OnTrack, SlaLevel::Urgent]);
    }

    async fn v8_nothing_to_pop_is_said_with_its_reason(world: &World) {
        world.desk("acme", json!({ "roster": ["ann", "bob"], "leaseSeconds": 60 })).await;
        let why = async |who: &str| popped(world, who, pop(1)).await.empty.unwrap();
        assert_eq!(why("ann").await.reason, EmptyReason::None);
        world.submit_one("acme", "a").await;
        let stranger = why("cid").await;
        assert_eq!((stranger.reason, stranger.pending), (EmptyReason::NotPermitted, 1));
        let held = world.pop_one("acme", "ann").await.review;
        let taken = why("bob").await;
        assert_eq!((taken.reason, taken.in_review), (EmptyReason::AllAssigned, 1));
        assert_eq!(taken.next_lease_ends_at, held.hand.until);
        world.give_back("acme", "ann", held.id, true).await.unwrap();
        assert_eq!(why("ann").await.reason, EmptyReason::NotPermitted, "she has passed it over");
        let who = World::operator();
        let target = PauseTarget::Collection(names::collection("acme"));
        let pause = world.engine.pause(&who, target, "holiday").await.unwrap();
        assert_eq!(why("bob").await.reason, EmptyReason::Paused);
        let claimed = world.engine.review_claim(&reviewer("acme", "bob"), held.id).await.unwrap_err();
        assert_eq!(claimed.refusal().unwrap().code(), "paused");
        world.engine.resume(&who, pause).await.unwrap();
        world.reviewer("bob", true, Some(1)).await;
        world.pop_one("acme", "bob").await;
        assert_eq!(why("bob").await.reason, EmptyReason::NotPermitted, "he holds as many as he may");
    }

    async fn v12_what_is_given_back_keeps_its_place(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo" })).await;
        world.submit_many("acme", "x", 3).await;
        let first = popped(world, "ann", pop(1)).await;
        world.give_back("acme", "ann", first.entries[0].review.id, false).await.unwrap();
        let all = popped(world, "bob", pop(3)).await;
        assert_eq!(names_of(&all), ["x-0", "x-1", "x-2"]);
        let told: Vec<_> = all.entries.iter().map(|entry| (entry.review.hand.token.0, entry.review.hand.retry_count)).collect();
        assert_eq!(told, [(2, 0), (1, 0), (1, 0)]);
    }

    async fn v13_a_pop_takes_over_from_holders_who_are_silent_for_too_long(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo", "leaseSeconds": 600 })).await;
        world.submit_many("acme", "x", 2).await;
        let silent = world.pop_one("acme", "ann").await.review;
        world.pass_ms(100_000);
        let busy = world.pop_one("acme", "bob").await.review;
        world.pass_ms(50_000);
        let take_over = |ms| Pop { lock_timeout_ms: Some(ms), ..pop(5) };
        assert_eq!(popped(world, "cid", take_over(150_001)).await.empty.unwrap().reason, EmptyReason::AllAssigned);
        let got = popped(world, "cid", take_over(150_000)).await;
        assert_eq!(got.entries.len(), 1);
        let hand = &got.entries[0].review.hand;
        assert_eq!((got.entries[0].review.id, hand.retry_count), (silent.id, 1));
        assert!(hand.token > silent.hand.token);
        let late = world.decide("acme", "ann", decision(silent.id, Outcome::Approved)).await;
        assert_eq!(late.unwrap_err().code(), "lease_lost");
        world.decide("acme", "bob", decision(busy.id, Outcome::Approved)).await.unwrap();
        let negative = world.engine.review_pop(&reviewer("acme", "cid"), take_over(-1), std::future::pending()).await;
        assert_eq!(negative.unwrap_err().refusal().unwrap().code(), "validation_failed");
    }

    async fn v13_reaping_with_a_threshold_takes_only_those_who_are_silent_for_so_long(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo", "leaseSeconds": 600 })).await;
        world.submit_many("acme", "x", 3).await;
        let quiet = world.pop_one("acme", "ann").await.review;
        let beating = world.pop_one("acme", "bob").await.review;
        world.pass_ms(60_000);
        let who = reviewer("acme", "bob");
        world.engine.review_heartbeat(&who, vec![beating.id]).await.unwrap().remove(0).unwrap();
        world.pass_ms(60_000);
        let reap = async |ms| world.engine.review_reap(ms).await.unwrap().requeued;
        assert_eq!(reap(None).await, 0, "no lease has run out");
        assert_eq!(reap(Some(120_001)).await, 0);
        assert_eq!(reap(Some(120_000)).await, 1);
        let watching = Watching::of(&World::scope("acme"));
        let state = async |id| world.engine.review(&watching, id).await.unwrap().review.hand.state;
        assert_eq!((state(quiet.id).await, state(beating.id).await), (ReviewState::Pending, ReviewState::InReview));
        world.pass_ms(540_000);
        assert_eq!(reap(None).await, 1, "bob's lease has run out");
    }

    async fn v2_a_changed_policy_orders_what_waits_anew_and_says_so(world: &World) {
        world.desk("acme", json!({ "slaHours": 24 })).await;
        five(world).await;
        world.submit_one("acme", "f").await;
        let order = async || {
            let page = world.engine.reviews(&Watching::of(&World::scope("acme")), ReviewFilter::default(), None, 10).await;
            let name = |entry: docket_engine::ReviewEntry| entry.external_id.unwrap();
            page.unwrap().entries.into_iter().map(name).collect::<Vec<_>>().concat()
        };
        assert_eq!(order().await, "cbdeaf");
        let policy = json!({ "slaHours": 1, "weights": { "confidence": 0, "deadline": 50, "complexity": 25, "value": 25 } });
        world.review_policy("acme", policy).await;
        assert_eq!(order().await, "cbdeaf", "in the background");
        while world.engine.rekey_run_once().await.unwrap().is_some_and(|wait| wait.is_zero()) {}
        assert_eq!(order().await, "dfcabe", "by the deadline alone; that of f came with the policy");
        let told = async || {
            let query = LogQuery { limit: 200, ..LogQuery::default() };
            let page = world.engine.log_of_all(&World::operator(), None, query).await.unwrap();
            page.entries.into_iter().filter(|entry| entry.action == "reviews.rekeyed").count()
        };
        assert_eq!(told().await, 1);
        // The second look, for what began by the old policy a moment ago, finds nothing and says nothing.
        world.pass_ms(60_000);
        assert!(world.engine.rekey_run_once().await.unwrap().is_none());
        assert_eq!(told().await, 1);
        assert!(world.engine.rekey_run_once().await.unwrap().is_none());
    }

    async fn v2_a_policy_that_changes_no_score_orders_nothing_anew(world: &World) {
        world.desk("acme", json!({})).await;
        world.submit_one("acme", "a").await;
        world.review_policy("acme", json!({ "strategy": "fifo", "leaseSeconds": 30, "undoSeconds": 0 })).await;
        assert!(world.engine.rekey_run_once().await.unwrap().is_none());
    }
}
