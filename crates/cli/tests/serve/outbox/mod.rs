//! Servers that die on the way of a message: after the intent, after the provider took it, before the mark. What the other side has on its
//! disk is compared with the rows, by plain SQL (rules N4, N5, N6 and A3).
//!
//! In each round the other side misbehaves and a server dies by SIGKILL at one of the points; then others, who have to find out what the dead
//! one did, meet the same faults; then the faults stop. `DOCKET_OUTBOX_ROUNDS` sets how many rounds there are; each is made from its number and
//! `DOCKET_OUTBOX_SEED`. What the seed cannot fix is who of several comes first.

mod compare;
mod mail;
mod round;
mod webhook;

use docket_core::access::ApiKey;
use docket_core::random::SeededRandom;
use docket_testkit::{Database, Plain};

use crate::serving::doctor;
use compare::compare;
use mail::Mail;
use round::{Draw, Kills, OtherSide, World, say};
use webhook::Webhook;

/// Each point once.
const ROUNDS: u64 = 3;

fn number(name: &str, usual: u64) -> u64 {
    let number = |text: String| text.parse().expect("it is a number");
    std::env::var(name).map_or(usual, number)
}

/// Runs the rounds, each with one server alone or with two.
async fn rounds(database: Database, other: impl OtherSide, two: bool) {
    let (count, seed) = (
        number("DOCKET_OUTBOX_ROUNDS", ROUNDS),
        number("DOCKET_OUTBOX_SEED", 1),
    );
    say(&format!("DOCKET_OUTBOX_SEED={seed} DOCKET_OUTBOX_ROUNDS={count}"));
    let world = World {
        plain: Plain::of(&database),
        database,
        key: ApiKey::draw(&SeededRandom::new(seed)).reveal().to_owned(),
        client: reqwest::Client::new(),
        two,
    };
    let (mut kills, mut asked) = (Kills::default(), Vec::new());
    for number in 0..count {
        let round = world.run(&other, &Draw::new(number, seed), &mut kills).await;
        compare(&world.plain, &other, &round.prefix, &round.asked).await;
        asked.extend(round.asked);
    }
    // What was right after its round is still right.
    compare(&world.plain, &other, "", &asked).await;
    kills.assert_all_points(count);
    doctor(&world.database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_on_the_way_of_a_webhook_tells_everybody_once_on_sqlite() {
    rounds(Database::sqlite(), Webhook::start().await, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_servers_that_dies_on_the_way_of_a_webhook_tells_everybody_once() {
    rounds(Database::postgres().await, Webhook::start().await, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_on_the_way_of_a_mail_repeats_none_that_it_does_not_call_a_repeat_on_sqlite() {
    rounds(Database::sqlite(), Mail::start().await, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_servers_that_dies_on_the_way_of_a_mail_repeats_none_that_it_does_not_call_a_repeat() {
    rounds(Database::postgres().await, Mail::start().await, true).await;
}
