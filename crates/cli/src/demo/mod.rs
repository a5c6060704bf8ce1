//! `docket demo`: a small world at work, for the eye. Everything it shows is asked of the engine; nothing is acted.
//!
//! The environment is left alone: without a flag the demonstration runs in a temporary folder, so that it never writes into
//! somebody's real database by accident.

mod decide;
pub(crate) mod seed;
mod submit;
mod tell;
mod watch;
mod worker;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use docket_core::Clock as _;
use docket_core::clock::SystemClock;
use docket_engine::Engine;
use docket_engine::background::Intervals;
use tempfile::TempDir;

use crate::doctor::verdict;
use crate::screen::Screen;
use crate::target::{Target, TargetArgs};
use tell::Teller;
use world::World;

/// Longer than this the demonstration never takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// What `docket demo` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use this folder and keep what was made [default: a temporary folder]
    #[arg(long, value_name = "DIR", conflicts_with = "database")]
    data: Option<PathBuf>,
    /// Use this PostgreSQL database, as postgres://user@host:5432/name; what is made stays there
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// How many items the largest tenant submits
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(4..=190))]
    items: u32,
}

/// Where the demonstration runs; a temporary folder goes when this is dropped.
struct Stage {
    target: Target,
    temporary: Option<TempDir>,
}

impl Stage {
    fn of(args: &Args) -> Result<Self> {
        if args.data.is_none() && args.database.is_none() {
            let folder = tempfile::Builder::new()
                .prefix("docket-demo-")
                .tempdir()
                .context("no temporary folder can be made; name one with --data")?;
            return Ok(Self {
                target: Target::Sqlite(folder.path().to_owned()),
                temporary: Some(folder),
            });
        }
        let flags = TargetArgs {
            data: args.data.clone(),
            database: args.database.clone(),
        };
        Ok(Self {
            target: flags.resolve()?,
            temporary: None,
        })
    }
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let stage = Stage::of(args)?;
    let screen = Screen::new();
    screen.line(&screen.title("Docket: one durable queue for work that machines do and people check"))?;
    let fate = match (&stage.temporary, &stage.target) {
        (Some(_), _) => "a fresh temporary folder, removed at the end",
        (None, Target::Sqlite(_)) => "kept at the end",
        (None, Target::Postgres { .. }) => "what is made stays there",
    };
    screen.line(&screen.faint(&format!("{} ({fate})", stage.target.describe())))?;

    let engine = stage.target.open().await?;
    // Beside other work, names of its own keep the demonstration out of its way.
    let world = World::new(engine.clone(), stage.temporary.is_none(), args.items);
    let shown = tokio::time::timeout(PATIENCE, show(&screen, &engine, world)).await;
    let Ok(differences) = shown else {
        bail!(
            "the demonstration did not end within {} seconds; the machine may be very busy",
            PATIENCE.as_secs()
        );
    };
    let healthy = differences?.is_empty();
    if let (None, Target::Sqlite(folder)) = (&stage.temporary, &stage.target) {
        screen.line("")?;
        screen.line(&screen.faint(&format!("Look again: docket doctor --data {}", folder.display())))?;
    }
    Ok(match healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

/// The demonstration, part by part; what the doctor found at the end.
async fn show(screen: &Screen, engine: &Engine, world: World) -> Result<Vec<String>> {
    let teller = Teller::new(screen.clone(), SystemClock.now());
    teller.part("Three tenants of different tiers, one pipeline of two steps")?;
    world.build().await?;
    teller.tenants(&world).await?;

    teller.part("Items come in")?;
    let intake = submit::all(&world, &teller).await?;

    teller.part("Three workers; one of them dies, one job fails in its second step")?;
    let background = engine
        .start_background(Intervals {
            reap: Duration::from_millis(50),
            ..Intervals::default()
        })
        .await?;
    let world = Arc::new(world);
    let teller = Arc::new(teller.restarted());
    teller.header(&world.small()?)?;
    let explained = worker::all(&world, &teller, &intake).await?;
    background.stop().await;

    teller.part("What came of it")?;
    teller.counts(&world, &intake).await?;
    teller.part(&format!(
        "Why was {} not running? Asked in mid-run",
        intake.last_small.name
    ))?;
    teller.explanation(&explained)?;
    teller.part(&format!("The log of {}, whose first worker died", world::DIES))?;
    teller.timeline(&world, intake.item(world::DIES)?).await?;

    teller.part("The doctor recounts everything")?;
    let differences = engine.doctor().await.context("the doctor could not look")?;
    verdict(screen, &differences)?;
    engine.close();
    Ok(differences)
}
