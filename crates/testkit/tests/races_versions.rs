//! Races for an item that is replaced or processed again while somebody finishes its job or decides on its review (rules I5, V1, V11 and
//! V17), on SQLite, on PostgreSQL and on PostgreSQL with sixteen servers. The first has its way, the other is told or goes on from there,
//! and the counts follow: the doctor recounts them at the end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use docket_core::id::{ItemId, ReviewId};
use docket_core::item::{ItemStatus, OnConflict};
use docket_core::random::{Random as _, SeededRandom};
use docket_core::review::Outcome;
use docket_core::{Refusal, Refused};
use docket_engine::{Complete, Engine, Submit, SubmitItem};
use docket_testkit::desk::{decide_at, decision, reviewer};
use docket_testkit::race::{Call, Scene, at_once, play};
use docket_testkit::{Database, World, everywhere, names};
use serde_json::json;

everywhere! {
    versions_while_workers_run_never_finish_old_content, real_time = false;
    versions_while_workers_run_leave_one_open_review, real_time = false;
    an_item_is_processed_again_beside_its_reviews_decision, real_time = false;
    an_item_is_processed_again_beside_an_undo, real_time = false;
    an_item_is_replaced_beside_an_undo, real_time = false;
}

const ROUNDS: usize = 48;

/// How long the first and the second of two wait: one begins at once, the other by little or by much later.
fn lateness(round: usize) -> (Duration, Duration) {
    let random = SeededRandom::new(round as u64);
    let late = Duration::from_micros(random.below([1, 3_000, 10_000, 60_000][round / 2 % 4]));
    match round % 2 {
        0 => (Duration::ZERO, late),
        _ => (late, Duration::ZERO),
    }
}

/// Makes the item of this externalId the next version with this content, at this server.
async fn replace(engine: &Engine, external_id: &str, content: usize) {
    let mut item = SubmitItem {
        payload: json!(content),
        ..World::item(external_id)
    };
    item.details.on_conflict = OnConflict::NewVersion;
    let call = Submit {
        collection: names::collection("acme"),
        items: vec![item],
        idempotency_key: None,
    };
    let answer = engine.submit(&World::scope("acme"), call).await.unwrap();
    assert!(answer.results[0].as_ref().unwrap().versioned);
}

async fn reprocess(engine: &Engine, item: ItemId) {
    engine.reprocess(&World::scope("acme"), item).await.unwrap();
}

async fn undo(engine: &Engine, id: ReviewId) -> Refused<()> {
    let undone = engine.review_undo(&reviewer("acme", "ann"), vec![id]).await;
    undone.unwrap().remove(0).map(drop)
}

/// Who replaces the item while a worker finishes its job, round by round; how many of the jobs were finished.
async fn replaced_while_worked_on(scene: &Scene) -> usize {
    let item = scene.world.submit_one("acme", "doc").await.id;
    let mut finished = 0;
    for round in 0..ROUNDS {
        let job = scene.world.claim_one("w").await;
        let (worker, producer) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let (completes, replaces) = lateness(round);
        let calls: Vec<Call<Option<Refused<()>>>> = vec![
            Box::pin(async move {
                tokio::time::sleep(completes).await;
                let done = Complete::new(job.id, job.token);
                Some(worker.complete(vec![done]).await.unwrap().remove(0).map(drop))
            }),
            Box::pin(async move {
                tokio::time::sleep(replaces).await;
                replace(&producer, "doc", round).await;
                None
            }),
        ];
        match at_once(calls).await.into_iter().flatten().next().unwrap() {
            Ok(()) => finished += 1,
            Err(refused) => assert_eq!(refused, Refusal::LeaseLost),
        }
    }
    assert!(
        (1..ROUNDS).contains(&finished),
        "both come first sometimes, but {finished} of {ROUNDS} jobs were finished"
    );
    let job = scene.world.claim_one("w").await;
    scene.world.complete(job.id, job.token).await.unwrap();
    assert_eq!(
        scene.world.view("acme", item).await.item.version as usize,
        ROUNDS + 1
    );
    assert_old_content_was_never_finished(scene, finished + 1).await;
    finished
}

/// Entries have their number from the moment at which they are written, after whatever their transaction had to wait for.
async fn assert_old_content_was_never_finished(scene: &Scene, finished: usize) {
    let told = "select l.action, coalesce(j.item_version, 0) from log l
                left join job j on j.lane_key = l.lane_key and j.seq = l.seq
                where l.action in ('item.submitted', 'item.versioned', 'job.completed') order by l.id";
    let (mut version, mut completed) = (0, 0);
    for row in scene.plain.rows(told).await {
        match row[0].as_str() {
            "job.completed" => {
                assert_eq!(
                    row[1],
                    version.to_string(),
                    "what was finished is not the present version"
                );
                completed += 1;
            }
            _ => version += 1,
        }
    }
    assert_eq!((version, completed), (ROUNDS + 1, finished));
}

async fn versions_while_workers_run_never_finish_old_content(scene: Arc<Scene>) {
    scene.world.lanes(1, &["acme"]).await;
    replaced_while_worked_on(&scene).await;
    let live = "select count(*) from job where state = 0";
    assert_eq!(scene.plain.number(live).await, 0);
}

async fn versions_while_workers_run_leave_one_open_review(scene: Arc<Scene>) {
    scene.world.pipeline_desk("acme", json!({})).await;
    let finished = replaced_while_worked_on(&scene).await;
    let (open, withdrawn) = (
        "select count(*) from review where state = 0",
        "select count(*) from review where state = 6",
    );
    assert_eq!(scene.plain.number(open).await, 1, "that of the last version");
    assert_eq!(scene.plain.number(withdrawn).await as usize, finished);
}

/// A new item that was processed, and its review in ann's hands.
async fn in_review(scene: &Scene, round: usize) -> (ItemId, ReviewId) {
    scene.world.submit_one("acme", &format!("r{round}")).await;
    let item = scene.world.process_next(Vec::new()).await;
    (item, scene.world.pop_one("acme", "ann").await.review.id)
}

/// The item is queued, and comes to where it was decided before, or to its review again.
async fn assert_processed_again(scene: &Scene, item: ItemId, decided: bool) {
    assert_eq!(
        scene.world.view("acme", item).await.item.status,
        ItemStatus::Queued
    );
    assert_eq!(scene.world.process_next(Vec::new()).await, item);
    let expected = match decided {
        true => ItemStatus::Approved,
        false => ItemStatus::InReview,
    };
    assert_eq!(scene.world.view("acme", item).await.item.status, expected);
    if !decided {
        let again = scene.world.pop_one("acme", "ann").await.review.id;
        let said = decision(again, Outcome::Approved);
        scene.world.decide("acme", "ann", said).await.unwrap();
    }
}

async fn an_item_is_processed_again_beside_its_reviews_decision(scene: Arc<Scene>) {
    scene.world.pipeline_desk("acme", json!({})).await;
    let mut decisions = 0;
    for round in 0..ROUNDS {
        let (item, review) = in_review(&scene, round).await;
        let (decider, producer) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let (decides, starts) = lateness(round);
        let calls: Vec<Call<Option<Refused<()>>>> = vec![
            Box::pin(async move {
                tokio::time::sleep(decides).await;
                let approved = decision(review, Outcome::Approved);
                Some(decide_at(&decider, "acme", "ann", approved).await.map(drop))
            }),
            Box::pin(async move {
                tokio::time::sleep(starts).await;
                reprocess(&producer, item).await;
                None
            }),
        ];
        let decided = at_once(calls).await.into_iter().flatten().next().unwrap();
        if let Err(refused) = &decided {
            assert_eq!(refused.code(), "lease_lost");
        }
        decisions += usize::from(decided.is_ok());
        assert_processed_again(&scene, item, decided.is_ok()).await;
    }
    assert!(
        (1..ROUNDS).contains(&decisions),
        "both come first sometimes, but there were {decisions} decisions in {ROUNDS} rounds"
    );
}

async fn an_item_is_processed_again_beside_an_undo(scene: Arc<Scene>) {
    beside_an_undo(&scene, Anew::Reprocessed).await;
}

async fn an_item_is_replaced_beside_an_undo(scene: Arc<Scene>) {
    beside_an_undo(&scene, Anew::Replaced).await;
}

/// Why an item is processed anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anew {
    Reprocessed,
    Replaced,
}

impl Anew {
    async fn begin(self, engine: &Engine, item: ItemId, external_id: &str) {
        match self {
            Self::Reprocessed => reprocess(engine, item).await,
            Self::Replaced => replace(engine, external_id, 2).await,
        }
    }
}

async fn beside_an_undo(scene: &Scene, anew: Anew) {
    let policy = json!({ "undoSeconds": 60 });
    scene.world.pipeline_desk("acme", policy).await;
    let mut undone = 0;
    for round in 0..ROUNDS {
        let (item, review) = in_review(scene, round).await;
        let approved = decision(review, Outcome::Approved);
        scene.world.decide("acme", "ann", approved).await.unwrap();
        let (undoer, producer) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let (undoes, starts) = lateness(round);
        let calls: Vec<Call<Option<Refused<()>>>> = vec![
            Box::pin(async move {
                tokio::time::sleep(undoes).await;
                Some(undo(&undoer, review).await)
            }),
            Box::pin(async move {
                tokio::time::sleep(starts).await;
                anew.begin(&producer, item, &format!("r{round}")).await;
                None
            }),
        ];
        let taken_back = at_once(calls).await.into_iter().flatten().next().unwrap();
        if let Err(refused) = &taken_back {
            assert_eq!(refused.code(), "conflict", "the decision stands");
        }
        undone += usize::from(taken_back.is_ok());
        let stays_decided = taken_back.is_err() && anew == Anew::Reprocessed;
        assert_processed_again(scene, item, stays_decided).await;
    }
    assert!(
        (1..ROUNDS).contains(&undone),
        "both come first sometimes, but {undone} of {ROUNDS} decisions were taken back"
    );
}

// The same with both in line behind somebody who has the row: whoever comes second has seen the item as it was before the first.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_waited_for_a_completion_takes_its_review_back() {
    play(Database::postgres().await, 1, false, second_version).await;
}

async fn second_version(scene: Arc<Scene>) {
    scene.world.pipeline_desk("acme", json!({})).await;
    scene.world.submit_one("acme", "doc").await;
    let job = scene.world.claim_one("w").await;
    let holder = scene.plain.begin("select 1 from hold for update").await;
    let (first, second) = (scene.engine(0).clone(), scene.engine(0).clone());
    let done = Complete::new(job.id, job.token);
    let complete = tokio::spawn(async move { first.complete(vec![done]).await.unwrap().remove(0) });
    scene.plain.until_waiting(1).await;
    let version = tokio::spawn(async move { replace(&second, "doc", 1).await });
    scene.plain.until_waiting(2).await;
    holder.commit().await;
    complete.await.unwrap().unwrap();
    version.await.unwrap();
    let story = scene.world.story("acme", job.item).await;
    assert!(story.contains(&"review.cancelled".to_owned()), "{story:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processing_again_that_waited_for_a_decision_counts_what_was_decided() {
    play(Database::postgres().await, 1, false, second_to_a_decision).await;
}

async fn second_to_a_decision(scene: Arc<Scene>) {
    scene.world.pipeline_desk("acme", json!({})).await;
    let (item, review) = in_review(&scene, 0).await;
    let holder = scene.plain.begin("select 1 from review for update").await;
    let (first, second) = (scene.engine(0).clone(), scene.engine(0).clone());
    let approved = decision(review, Outcome::Approved);
    let decide = tokio::spawn(async move { decide_at(&first, "acme", "ann", approved).await });
    scene.plain.until_waiting(1).await;
    let again = tokio::spawn(async move { reprocess(&second, item).await });
    scene.plain.until_waiting(2).await;
    holder.commit().await;
    decide.await.unwrap().unwrap();
    again.await.unwrap();
    scene.world.assert_healthy().await;
    assert_processed_again(&scene, item, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processing_again_that_waited_for_an_undo_takes_the_review_back() {
    let test = async |scene: Arc<Scene>| second_to_an_undo(&scene, Anew::Reprocessed).await;
    play(Database::postgres().await, 1, false, test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_waited_for_an_undo_takes_the_review_back() {
    let test = async |scene: Arc<Scene>| second_to_an_undo(&scene, Anew::Replaced).await;
    play(Database::postgres().await, 1, false, test).await;
}

async fn second_to_an_undo(scene: &Scene, anew: Anew) {
    let policy = json!({ "undoSeconds": 60 });
    scene.world.pipeline_desk("acme", policy).await;
    let (item, review) = in_review(scene, 0).await;
    let approved = decision(review, Outcome::Approved);
    scene.world.decide("acme", "ann", approved).await.unwrap();
    let holder = scene.plain.begin("select 1 from review for update").await;
    let (first, second) = (scene.engine(0).clone(), scene.engine(0).clone());
    let undoes = tokio::spawn(async move { undo(&first, review).await });
    scene.plain.until_waiting(1).await;
    let again = tokio::spawn(async move { anew.begin(&second, item, "r0").await });
    scene.plain.until_waiting(2).await;
    holder.commit().await;
    undoes.await.unwrap().unwrap();
    again.await.unwrap();
    scene.world.assert_healthy().await;
    assert_processed_again(scene, item, false).await;
}
