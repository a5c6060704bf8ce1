//! How the demonstration is told: parts, rows and tables, no wider than 100 columns.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use comfy_table::{Table, presets};
use docket_core::clock::SystemClock;
use docket_core::item::ItemStatus;
use docket_core::tenant::UploadLimit;
use docket_core::{Clock as _, Timestamp};
use docket_engine::{Entry, Explanation, LogPosition};
use indicatif::ProgressBar;
use serde_json::Value;

use super::submit::{Intake, Named};
use super::world::{LEASE_MS, Tenant, World, definition};
use crate::screen::Screen;

/// After this many ordinary rows the rest is only counted.
const ROWS_SHOWN: usize = 40;
const TIMELINE_MAX: u64 = 50;

/// Tells what happens.
#[derive(Debug)]
pub(super) struct Teller {
    screen: Screen,
    begin: Timestamp,
    parts: AtomicUsize,
    rows: AtomicUsize,
}

/// A length of time, for the eye.
pub(super) fn seconds(ms: i64) -> String {
    format!("{}.{} s", ms.max(0) / 1000, ms.max(0) % 1000 / 100)
}

impl Teller {
    pub(super) fn new(screen: Screen, begin: Timestamp) -> Self {
        Self {
            screen,
            begin,
            parts: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
        }
    }

    /// The same, with its clock at nought.
    pub(super) fn restarted(self) -> Self {
        Self {
            begin: self.now(),
            ..self
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Opens a part.
    pub(super) fn part(&self, title: &str) -> Result<()> {
        let number = self.parts.fetch_add(1, Ordering::Relaxed) + 1;
        self.screen.line("")?;
        self.screen
            .line(&self.screen.title(&format!("{number}. {title}")))
    }

    fn table(&self, table: &Table) -> Result<()> {
        for (index, line) in table.lines().enumerate() {
            let line = format!(" {}", line.trim_end());
            self.screen.line(&match index {
                0 => self.screen.faint(&line),
                _ => line,
            })?;
        }
        Ok(())
    }

    pub(super) async fn tenants(&self, world: &World) -> Result<()> {
        let tiers = world.engine.tiers().await?;
        let mut table = new_table(&["tenant", "tier", "submissions an hour", "jobs at once"]);
        for tenant in world.tenants()? {
            let tier = tiers.iter().find(|tier| tier.name == tenant.tier);
            let uploads = match tier.map(|tier| tier.uploads) {
                Some(UploadLimit::PerHour(n)) => n.to_string(),
                _ => "no limit".to_owned(),
            };
            let jobs = tier.map_or_else(String::new, |tier| tier.concurrent_jobs.to_string());
            table.add_row([tenant.id.as_str(), tenant.tier, &uploads, &jobs]);
        }
        self.table(&table)?;
        let pipeline = definition()?;
        let steps: Vec<_> = pipeline.steps.iter().map(|step| step.as_str()).collect();
        self.screen.line(&format!(
            "  pipeline {}: {}; a lease of {}, at most {} attempts",
            world.pipeline()?,
            steps.join(" → "),
            seconds(LEASE_MS),
            pipeline.max_attempts
        ))
    }

    pub(super) fn came_in(&self, tenant: &Tenant, what: &str, answer: &str) -> Result<()> {
        let line = format!("  {:<18}{what:<24}{answer}", tenant.id.as_str());
        self.screen.line(&line)
    }

    pub(super) fn came_in_more(&self, answer: &str) -> Result<()> {
        self.screen.line(&format!("  {:<42}{answer}", ""))
    }

    /// The head of the rows.
    pub(super) fn header(&self, small: &Tenant) -> Result<()> {
        self.screen.line(&format!(
            "  Lanes take turns. {} runs one job at a time; its last item tells its place.",
            small.id
        ))?;
        let head = format!("  {:>6}  {:<10}{:<16}what", "time", "who", "item");
        self.screen.line(&self.screen.faint(&head))
    }

    fn row(&self, who: &str, item: &str, what: &str) -> Result<()> {
        let time = self
            .screen
            .faint(&format!("{:>6}", seconds(self.now().since(self.begin))));
        self.screen.line(&format!("  {time}  {who:<10}{item:<16}{what}"))
    }

    /// A job that is done; there may be many.
    pub(super) fn done(&self, who: &str, item: &str, run_ms: i64) -> Result<()> {
        match self.rows.fetch_add(1, Ordering::Relaxed) {
            n if n < ROWS_SHOWN => self.row(who, item, &format!("done in {}", seconds(run_ms))),
            ROWS_SHOWN => self.row("", "", "… and so on; ordinary ends are no longer shown"),
            _ => Ok(()),
        }
    }

    pub(super) fn notable(&self, who: &str, item: &str, what: &str) -> Result<()> {
        self.row(who, item, &self.screen.notable(what))
    }

    pub(super) fn bad(&self, who: &str, item: &str, what: &str) -> Result<()> {
        self.row(who, item, &self.screen.bad(what))
    }

    pub(super) fn position(&self, item: &Named, words: &str) -> Result<()> {
        self.row("producer", &item.name, words)
    }

    pub(super) fn is_live(&self) -> bool {
        self.screen.is_live()
    }

    pub(super) fn live_line(&self, item: &Named) -> Option<ProgressBar> {
        self.screen
            .live_line(format!("{} of {}", item.name, item.tenant.id))
    }

    /// What became of everything, tenant by tenant.
    pub(super) async fn counts(&self, world: &World, intake: &Intake) -> Result<()> {
        let mut table = new_table(&[
            "tenant",
            "taken",
            "duplicates",
            "refused",
            "completed",
            "queued",
            "failed",
        ]);
        for (tenant, [taken, duplicates, refused]) in world.tenants()?.iter().zip(intake.counts) {
            let counts = world.engine.counts(&tenant.scope()?, &tenant.collection).await?;
            let count = |status| counts.get(&status).copied().unwrap_or(0).to_string();
            table.add_row([
                tenant.id.as_str().to_owned(),
                taken.to_string(),
                duplicates.to_string(),
                refused.to_string(),
                count(ItemStatus::Completed),
                count(ItemStatus::Queued),
                count(ItemStatus::Failed),
            ]);
        }
        self.table(&table)
    }

    pub(super) fn explanation(&self, explained: &Explanation) -> Result<()> {
        for reason in &explained.reasons {
            self.screen.line(&format!("  - {reason}"))?;
        }
        for holder in &explained.holders {
            let worker = holder.worker.as_deref().unwrap_or("somebody");
            let lease = seconds(holder.lease_expires_at.since(holder.since));
            self.screen.line(&format!(
                "  - The lane's place is held by {worker}, on a lease of {lease}"
            ))?;
        }
        if let Some(position) = explained.position {
            self.screen
                .line(&format!("  - Its producer sees: {}", position.message()))?;
        }
        Ok(())
    }

    pub(super) async fn timeline(&self, world: &World, item: &Named) -> Result<()> {
        let begin = LogPosition::default();
        let scope = item.tenant.scope()?;
        let entries = world
            .engine
            .timeline(&scope, item.id, begin, TIMELINE_MAX)
            .await?;
        let Some(first) = entries.first().map(|entry| entry.at) else {
            return Ok(());
        };
        for entry in &entries {
            let time = self
                .screen
                .faint(&format!("{:>6}", seconds(entry.at.since(first))));
            let (action, actor) = (&entry.action, &entry.actor);
            let line = format!("  {time}  {action:<20}{actor:<18}{}", details(entry));
            self.screen.line(line.trim_end())?;
        }
        Ok(())
    }
}

fn new_table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.to_vec());
    table
}

/// What an entry of the log adds to its action, in a few words.
fn details(entry: &Entry) -> String {
    let details: Value = entry
        .details
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null);
    let attempt = details["attempt"].as_u64().map(|n| format!("attempt {n}"));
    let step = details["step"].as_str().map(|step| format!("step {step}"));
    let run = details["runMs"].as_i64().map(|ms| format!("ran {}", seconds(ms)));
    let error = details["error"].as_str().map(str::to_owned);
    let parts: Vec<_> = [attempt, step, run, error].into_iter().flatten().collect();
    parts.join(", ")
}
