//! The run itself: batches go out a few at a time and are accounted for in their order, each before the checkpoint says so.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use tokio::sync::mpsc;

use super::batch::{Batch, Batcher};
use super::checkpoint::{Checkpoint, State};
use super::refused::RefusedFile;
use super::send::{Sent, Target};
use super::source::Source;
use super::sum::{Told, grouped};
use crate::screen::Screen;
use crate::serve::stop;

/// Batches that are with the server at the same time.
const IN_FLIGHT: usize = 4;
/// Batches that are read ahead.
const READ_AHEAD: usize = 2;
/// How many items of a dry run are shown.
const SHOWN: usize = 3;
/// How often the progress is told where it cannot be drawn.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// All that a run needs.
pub(super) struct Run {
    pub(super) source: Source,
    pub(super) batcher: Batcher,
    pub(super) target: Target,
    pub(super) state: State,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) refused: Option<RefusedFile>,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) state: State,
    pub(super) told: Told,
    pub(super) shown: Vec<Value>,
    pub(super) largest_confidence: f64,
    /// Somebody stopped it.
    pub(super) interrupted: bool,
    /// It could not go on, for this.
    pub(super) failed: Option<anyhow::Error>,
}

impl Run {
    /// Runs to the end, to a signal, or to what it cannot go on from. What was done by then is on record.
    pub(super) async fn run(self) -> Result<Ended> {
        let stopping = stop::on_signal()?;
        let progress = Progress::new(&self.source, &self.state);
        let (sender, receiver) = mpsc::channel(READ_AHEAD);
        let reading = self.source.read(self.batcher, sender);
        let mut account = Account {
            checkpoint: self.checkpoint,
            refused: self.refused,
            ended: Ended {
                state: self.state,
                told: Told::default(),
                shown: Vec::new(),
                largest_confidence: 0.0,
                interrupted: false,
                failed: None,
            },
        };
        let batches = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Batch>| {
            let batch = receiver.recv().await?;
            Some((batch, receiver))
        });
        let target = &self.target;
        let mut sent = std::pin::pin!(
            batches
                .take_until(stop::stopped(stopping.clone()))
                .map(async |batch| target.send(batch).await)
                .buffered(IN_FLIGHT)
        );
        let mut ticks = tokio::time::interval(TOLD_EVERY);
        ticks.reset();
        loop {
            tokio::select! {
                next = sent.next() => match next {
                    None => break,
                    Some(sent) => if let Err(error) = sent.and_then(|sent| account.take(sent, &progress)) {
                        account.ended.failed = Some(error);
                        break;
                    }
                },
                _ = ticks.tick() => progress.tell(&account.ended.state),
            }
        }
        account.ended.interrupted = *stopping.borrow();
        progress.bar.finish_and_clear();
        let ended = &mut account.ended;
        if ended.failed.is_none() && !ended.interrupted {
            ended.failed = reading.await.context("the reading broke off")?.err();
        }
        Ok(account.ended)
    }
}

/// What is written down of batches, in their order.
struct Account {
    checkpoint: Option<Checkpoint>,
    refused: Option<RefusedFile>,
    ended: Ended,
}

impl Account {
    fn take(&mut self, sent: Sent, progress: &Progress) -> Result<()> {
        let Sent {
            batch,
            taken,
            known,
            shown,
        } = sent;
        let ended = &mut self.ended;
        let sum = &mut ended.state.sum;
        sum.records += batch.records;
        sum.taken += taken;
        sum.known += known;
        for (why, count) in &batch.skipped {
            *sum.skipped.entry(why.clone()).or_default() += count;
        }
        for refused in &batch.refused {
            *sum.refused.entry(refused.kind.clone()).or_default() += 1;
        }
        ended.told.add(&batch.refused);
        let room = SHOWN - ended.shown.len();
        ended.shown.extend(shown.into_iter().take(room));
        ended.largest_confidence = ended.largest_confidence.max(batch.largest_confidence());
        if let Some(file) = &mut self.refused {
            file.add(&batch.refused)?;
            ended.state.refused = Some(file.kept().clone());
        }
        progress.show(&batch, &ended.state);
        // A last line that is not whole is looked at again by the next run: nothing of its batch is written down.
        if let (Some(checkpoint), Some(position)) = (&self.checkpoint, batch.position) {
            ended.state.position = Some(position);
            checkpoint.write(&ended.state)?;
        }
        Ok(())
    }
}

/// How far it is, on standard error: a bar on a terminal, else a line from time to time.
struct Progress {
    bar: ProgressBar,
    is_of_bytes: bool,
}

impl Progress {
    fn new(source: &Source, state: &State) -> Self {
        let is_of_bytes = matches!(source, Source::Lines(_));
        let template = match (source.total(), is_of_bytes) {
            (Some(_), true) => "{bar:30} {percent:>3}% of {total_bytes}, {eta} left: {msg}",
            (Some(_), false) => "{bar:30} {percent:>3}% of about {human_len} rows, {eta} left: {msg}",
            (None, _) => "{spinner} {elapsed}: {msg}",
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            ProgressBar::with_draw_target(source.total(), ProgressDrawTarget::stderr()).with_style(style);
        let progress = Self { bar, is_of_bytes };
        progress.bar.set_message(state.sum.brief());
        progress
    }

    fn show(&self, batch: &Batch, state: &State) {
        let at = if self.is_of_bytes {
            batch.end
        } else {
            state.sum.records
        };
        self.bar.set_position(at);
        self.bar.set_message(state.sum.brief());
    }

    fn tell(&self, state: &State) {
        if self.bar.is_hidden() {
            let share = self.bar.length().filter(|length| *length > 0).map(|length| {
                let percent = (self.bar.position() * 100 / length).min(100);
                format!("{percent}%: ")
            });
            Screen::note(&format!(
                "{}{} records read, {}",
                share.unwrap_or_default(),
                grouped(state.sum.records),
                state.sum.brief()
            ));
        }
    }
}
