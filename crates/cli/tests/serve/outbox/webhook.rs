//! A provider that can be asked, and has faults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use docket_core::random::Random as _;
use docket_testkit::outbox_rows::DeliveryRow;
use docket_testkit::provider::{Control, Mode, ProviderProcess, read_ledger};
use tempfile::TempDir;

use super::round::{Draw, OtherSide, TIMEOUT_SECONDS, say};

/// What may go wrong with a message.
const FAULTS: [Mode; 10] = [
    Mode::AcceptThenHang,
    Mode::AcceptThenReset,
    Mode::AcceptThenFail,
    Mode::AcceptThenBabble,
    Mode::AcceptPlainly,
    Mode::Hang,
    Mode::Reset,
    Mode::Fail,
    Mode::RateLimit,
    Mode::Refuse,
];
/// How many of them a round has, beside messages that are simply taken.
const FAULTS_OF_ROUND: usize = 3;
/// What may go wrong with a look-up, in turns.
const LOOKUP_FAULTS: [LookupFault; 5] = [
    LookupFault::Slow,
    LookupFault::Lags,
    LookupFault::TooSlow,
    LookupFault::Fails,
    LookupFault::Babbles,
];
/// The provider takes nothing that is older, and shows what it took so long afterwards; together it is less than the lag that it admits to.
const AGE_MAX_MS: i64 = 2_000;
const LAG_MS: i64 = 500;
const LAG_SECONDS: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum LookupFault {
    Slow,
    TooSlow,
    Lags,
    Fails,
    Babbles,
}

impl LookupFault {
    fn put_into(self, control: &mut Control) {
        match self {
            Self::Slow => control.lookup_delay_ms = 300,
            Self::TooSlow => control.lookup_delay_ms = u64::from(TIMEOUT_SECONDS) * 1_500,
            Self::Lags => control.lookup_lag_ms = LAG_MS,
            Self::Fails => control.lookup_fails = true,
            Self::Babbles => control.lookup_babbles = true,
        }
    }
}

/// A provider.
pub(super) struct Webhook {
    provider: ProviderProcess,
    ledger: PathBuf,
    _folder: TempDir,
}

impl Webhook {
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let ledger = folder.path().join("ledger.jsonl");
        Self {
            provider: ProviderProcess::start(program(), &ledger).await,
            ledger,
            _folder: folder,
        }
    }
}

/// The provider's program, which stands beside ours; a run of all tests has built it, and it is built here where this one is run by itself.
fn program() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_docket")).with_file_name("docket-provider");
        if !program.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args([
                "build",
                "--locked",
                "-p",
                "docket-testkit",
                "--bin",
                "docket-provider",
            ]);
            let built = build.status().expect("cargo runs");
            assert!(
                built.success() && program.exists(),
                "docket-provider is not built"
            );
        }
        program
    });
    program.to_str().expect("a path in UTF-8")
}

impl OtherSide for Webhook {
    fn settings(&self, _round: u64) -> String {
        format!(
            "[channels.webhook]\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nallow_private = true\n\
             lookup_url = \"{}\"\nlookup_lag_seconds = {LAG_SECONDS}\ntimeout_seconds = {TIMEOUT_SECONDS}\n",
            self.provider.lookup_url()
        )
    }

    fn recipient(&self, name: &str) -> String {
        format!("{}/{name}", self.provider.recipient())
    }

    async fn misbehave(&self, draw: &Draw) {
        let mut control = Control {
            modes: vec![Mode::Accept],
            seed: draw.random.next_u64(),
            retry_after: Some("1".to_owned()),
            age_max_ms: AGE_MAX_MS,
            ..Control::default()
        };
        // In turns, so that a few rounds have met every fault; the seed says with which they begin, and which message meets which.
        let turn = usize::try_from((draw.seed % 1_000) + draw.number).expect("a small number");
        let faults = FAULTS.iter().cycle().skip(turn * FAULTS_OF_ROUND % FAULTS.len());
        control.modes.extend(faults.take(FAULTS_OF_ROUND));
        LOOKUP_FAULTS[turn % LOOKUP_FAULTS.len()].put_into(&mut control);
        say(&format!("  {control:?}"));
        self.provider.control(&control).await;
    }

    async fn behave(&self) {
        let control = Control {
            age_max_ms: AGE_MAX_MS,
            ..Control::default()
        };
        self.provider.control(&control).await;
    }

    fn effects(&self) -> BTreeMap<String, usize> {
        let mut effects = BTreeMap::new();
        for effect in read_ledger(&self.ledger) {
            *effects.entry(effect.token).or_default() += 1;
        }
        effects
    }

    fn effects_max(&self, _repeats: usize) -> usize {
        1
    }

    fn assert_of_round(&self, _round: u64, rows: &[DeliveryRow], _repeats: &BTreeMap<String, usize>) {
        // The dead server had at least one in hand, and somebody asked about it.
        assert!(rows.iter().any(|row| row.ended > 1), "something was tried again");
    }
}
