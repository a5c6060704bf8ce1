//! One round: faults begin, a server dies, others take up what it had in hand, faults stop, everything comes to rest.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use docket_core::random::{Random as _, SeededRandom};
use docket_testkit::outbox_rows::{DeliveryRow, delivery_rows, logged_repeats};
use docket_testkit::{Database, Plain};
use serde_json::{Value, json};

use crate::serving::{PATIENCE, Server, now, serve_on};

/// Where servers die, and up to the how manieth time. A settlement counts once for many messages, and so is passed less often.
const POINTS: [(&str, u64); 3] = [("after_intent", 3), ("after_accepted", 3), ("before_mark", 2)];
/// Messages of a round, at least.
const MESSAGES: usize = 12;
const SIGKILL: i32 = 9;
/// Longer than the time-out of a channel, and short for those who wait for what the dead had in hand.
const LEASE_SECONDS: u32 = 5;
/// The time-out of a channel.
pub(super) const TIMEOUT_SECONDS: u32 = 1;

/// Says what is needed for making a round again; a test that passes is not heard.
#[expect(
    clippy::print_stdout,
    reason = "whoever reads a failure needs its seed and its faults"
)]
pub(super) fn say(text: &str) {
    println!("{text}");
}

/// Who is told, and keeps a ledger of what it was told.
pub(super) trait OtherSide {
    /// Its section of the settings, in this round.
    fn settings(&self, round: u64) -> String;
    /// A recipient of this name.
    fn recipient(&self, name: &str) -> String;
    /// From now on it misbehaves, in the way of this round.
    async fn misbehave(&self, draw: &Draw);
    /// From now on it does not.
    async fn behave(&self);
    /// How often its ledger has each token.
    fn effects(&self) -> BTreeMap<String, usize>;
    /// How many effects a message may have that so many sends were logged for as possible repeats.
    fn effects_max(&self, repeats: usize) -> usize;
    /// What has to be true of a round whose server was killed, beside what is true of every one.
    fn assert_of_round(&self, round: u64, rows: &[DeliveryRow], repeats: &BTreeMap<String, usize>);
}

/// What a round is made from.
pub(super) struct Draw {
    pub(super) number: u64,
    pub(super) seed: u64,
    /// By both.
    pub(super) random: SeededRandom,
}

impl Draw {
    pub(super) fn new(number: u64, seed: u64) -> Self {
        let random = SeededRandom::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
        Self { number, seed, random }
    }
}

/// How many servers died at each point.
#[derive(Debug, Default)]
pub(super) struct Kills(BTreeMap<&'static str, u64>);

impl Kills {
    pub(super) fn assert_all_points(&self, rounds: u64) {
        say(&format!("killed: {:?}", self.0));
        assert_eq!(
            self.0.values().sum::<u64>(),
            rounds,
            "each round killed its server"
        );
        let points = (POINTS.len() as u64).min(rounds);
        assert_eq!(self.0.len() as u64, points, "every point was hit: {:?}", self.0);
    }
}

/// What was asked for in a round.
pub(super) struct Round {
    /// What the ids of its changelists begin with.
    pub(super) prefix: String,
    pub(super) asked: Vec<String>,
}

/// Where servers die.
pub(super) struct World {
    pub(super) database: Database,
    pub(super) plain: Plain,
    pub(super) key: String,
    pub(super) client: reqwest::Client,
    /// Whether another server works beside the one that dies.
    pub(super) two: bool,
}

impl World {
    /// Runs a round, until everything of it is at rest.
    pub(super) async fn run(&self, other: &impl OtherSide, draw: &Draw, kills: &mut Kills) -> Round {
        let number = draw.number;
        let (point, times) = POINTS[usize::try_from(number).expect("a small number") % POINTS.len()];
        let at = format!("{point}:{}", 1 + draw.random.below(times));
        say(&format!("round {number}: {at}"));
        let folder = tempfile::tempdir().expect("a folder can be made");
        let settings = folder.path().join("docket.toml");
        let text = format!(
            "{}\n[outbox]\nlease_seconds = {LEASE_SECONDS}\n",
            other.settings(number)
        );
        std::fs::write(&settings, text).expect("the settings can be written");
        other.misbehave(draw).await;

        let beside = self.two.then(|| Server::start(self.command(&settings)));
        let mut command = self.command(&settings);
        command.args(["--crash-at", &at]);
        let prefix = format!("r{number}-");
        let asked = self.ask_to_death(Server::start(command), other, &prefix).await;
        *kills.0.entry(point).or_default() += 1;

        let survivor = beside.unwrap_or_else(|| Server::start(self.command(&settings)));
        for body in &asked {
            let answer = self.post(&survivor.url, body).await;
            answer.expect("the survivor answers");
        }
        self.taken_up(&prefix).await;
        other.behave().await;
        let rows = self
            .rows_when(&prefix, "at rest", |row| row.state.is_at_rest())
            .await;
        survivor.stop();
        let repeats = logged_repeats(&self.plain).await;
        other.assert_of_round(number, &rows, &repeats);
        let name = |body: &Value| body["changelistId"].as_str().expect("a text").to_owned();
        Round {
            prefix,
            asked: asked.iter().map(name).collect(),
        }
    }

    fn command(&self, settings: &Path) -> Command {
        let mut command = serve_on(&self.database);
        command
            .arg("--config")
            .arg(settings)
            .env("DOCKET_ADMIN_KEY", &self.key);
        command
    }

    /// Asks a server for messages until it dies of one.
    async fn ask_to_death(&self, mut doomed: Server, other: &impl OtherSide, prefix: &str) -> Vec<Value> {
        let (begun, mut asked) = (now(), Vec::new());
        let status = loop {
            let ended = doomed.ended();
            if let (Some(status), true) = (ended, asked.len() >= MESSAGES) {
                break status;
            }
            let name = format!("{prefix}{}", asked.len());
            let body = json!({
                "idempotencyKey": name, "changelistId": name, "reviewVersion": 1,
                "recipients": [other.recipient(&name)], "subject": "Told", "body": "once\n",
            });
            if ended.is_none() {
                self.post(&doomed.url, &body).await;
            }
            asked.push(body);
            if asked.len() > MESSAGES {
                assert!(begun.elapsed() < PATIENCE * 2, "the server does not die");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        assert_eq!(status.signal(), Some(SIGKILL), "it was killed: {status}");
        asked
    }

    /// Asks for a message; no answer where the server dies over it.
    async fn post(&self, url: &str, body: &Value) -> Option<Value> {
        let request = self
            .client
            .post(format!("{url}/api/v1/notifications"))
            .bearer_auth(&self.key)
            .timeout(PATIENCE)
            .json(body);
        let response = request.send().await.ok()?;
        assert!(response.status().is_success(), "{}", response.status());
        response.json().await.ok()
    }

    /// Waits until somebody has dealt with everything that is in doubt now, and every message was tried: also those who find out what the dead
    /// did have to meet the faults.
    async fn taken_up(&self, prefix: &str) {
        let then: BTreeMap<String, DeliveryRow> = delivery_rows(&self.plain, prefix)
            .await
            .into_iter()
            .map(|row| (row.token.clone(), row))
            .collect();
        let is_taken_up = |row: &DeliveryRow| {
            let before = then.get(&row.token).filter(|before| before.state.is_in_doubt());
            row.state.is_at_rest() || row.ended > before.map_or(0, |before| before.lease)
        };
        self.rows_when(prefix, "taken up", is_taken_up).await;
    }

    /// The rows of a round, once this is true of all.
    async fn rows_when(
        &self,
        prefix: &str,
        what: &str,
        is_so: impl Fn(&DeliveryRow) -> bool,
    ) -> Vec<DeliveryRow> {
        let begun = now();
        loop {
            let rows = delivery_rows(&self.plain, prefix).await;
            let Some(row) = rows.iter().find(|row| !is_so(row)) else {
                return rows;
            };
            assert!(begun.elapsed() < PATIENCE * 4, "it is not {what}: {row:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
