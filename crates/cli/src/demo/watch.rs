//! Those who watch: producers that look at their item's place while it waits, and one that asks why it is not running.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use docket_core::Refusal;
use docket_core::position::Position;
use docket_engine::Explanation;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::submit::{Intake, Named};
use super::tell::{Teller, seconds};
use super::world::World;

const LOOK_EVERY: Duration = Duration::from_millis(80);
/// When the question "why is it not running?" is asked.
const ASK_AFTER: Duration = Duration::from_millis(900);
/// While there is no terminal, a place is told when this many are ahead.
const TOLD_ON_PAPER: [u64; 4] = [8, 5, 3, 1];

/// Shows the places of waiting items.
pub(super) struct Positions;

impl Positions {
    /// Begins to show them; ends when the work is over.
    pub(super) fn start(
        world: &Arc<World>,
        teller: &Arc<Teller>,
        intake: &Intake,
        is_over: watch::Receiver<bool>,
    ) -> JoinHandle<Result<()>> {
        let (world, teller) = (Arc::clone(world), Arc::clone(teller));
        let (watched, last) = (intake.last_of_each(), intake.last_small.clone());
        tokio::spawn(async move {
            if teller.is_live() {
                show_live(&world, &teller, &watched, is_over).await
            } else {
                tell_on_paper(&world, &teller, &last, is_over).await
            }
        })
    }
}

/// A line for each watched item, on a terminal.
async fn show_live(
    world: &World,
    teller: &Teller,
    watched: &[Named],
    mut is_over: watch::Receiver<bool>,
) -> Result<()> {
    let lines: Vec<_> = watched.iter().map(|item| teller.live_line(item)).collect();
    loop {
        for (item, line) in watched.iter().zip(&lines) {
            if let Some(line) = line {
                line.set_message(match place(world, item).await? {
                    Ok(position) => words(&position),
                    Err(status) => status,
                });
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = is_over.wait_for(|over| *over) => break,
        }
    }
    lines
        .iter()
        .flatten()
        .for_each(indicatif::ProgressBar::finish_and_clear);
    Ok(())
}

/// A row now and then for one item, where lines cannot change in place.
async fn tell_on_paper(
    world: &World,
    teller: &Teller,
    item: &Named,
    mut is_over: watch::Receiver<bool>,
) -> Result<()> {
    let mut told = None;
    loop {
        if let Ok(position) = place(world, item).await?
            && told != Some(position.ahead)
            && TOLD_ON_PAPER.contains(&position.ahead)
        {
            told = Some(position.ahead);
            teller.position(item, &words(&position))?;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = is_over.wait_for(|over| *over) => return Ok(()),
        }
    }
}

fn words(position: &Position) -> String {
    match position.eta_ms {
        Some(eta_ms) if eta_ms > 0 => format!("{}, starts in about {}", position.message(), seconds(eta_ms)),
        _ => position.message(),
    }
}

/// The place of an item, or its status where it no longer waits.
async fn place(world: &World, item: &Named) -> Result<Result<Position, String>> {
    let scope = item.tenant.scope()?;
    match world.engine.position(&scope, item.id).await {
        Ok(position) => Ok(Ok(position)),
        Err(error) if matches!(error.refusal(), Some(Refusal::Conflict { .. })) => Ok(Err(world
            .engine
            .item(&scope, item.id)
            .await?
            .item
            .status
            .to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Asks, a moment into the work, why an item is not running.
pub(super) async fn explain_in_mid_run(world: Arc<World>, item: Named) -> Result<Explanation> {
    tokio::time::sleep(ASK_AFTER).await;
    Ok(world.engine.explain(&item.tenant.scope()?, item.id).await?)
}
