//! The results: a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

use crate::measure::Measured;

/// One figure.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) done: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wal_bytes_per_job: Option<f64>,
    /// Times a baseline of the same run.
    pub(crate) ratios: BTreeMap<String, f64>,
}

/// Where a fact's bar is.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

/// Something that has a bar.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) bar: Bar,
}

impl Fact {
    fn line(&self) -> String {
        let Self {
            name,
            value,
            unit,
            bar,
        } = self;
        let (holds, bar) = match bar {
            Bar::AtMost(most) => (value <= most, format!("at most {most}")),
            Bar::AtLeast(least) => (value >= least, format!("at least {least}")),
        };
        let verdict = if holds { "holds" } else { "MISSES" };
        format!("{name}: {value:.2} {unit} ({verdict} the bar, {bar} {unit})")
    }
}

/// All figures of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    quick: bool,
    cores: usize,
    figures: Vec<Figure>,
    facts: Vec<Fact>,
}

impl Report {
    pub(crate) fn new(quick: bool) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        Self {
            quick,
            cores,
            figures: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Adds a fact.
    pub(crate) fn fact(&mut self, fact: Fact) {
        println!("{}", fact.line());
        self.facts.push(fact);
    }

    fn per_second(&self, name: &str) -> Option<f64> {
        let figure = self.figures.iter().find(|figure| figure.name == name)?;
        Some(figure.per_second)
    }

    /// How many times as much one costs as another.
    pub(crate) fn times(&mut self, base: &str, grown: &str, at_most: f64) {
        if let (Some(base_rate), Some(rate)) = (self.per_second(base), self.per_second(grown)) {
            self.fact(Fact {
                name: format!("{grown}, its cost beside that of {base}"),
                value: base_rate / rate,
                unit: "×",
                bar: Bar::AtMost(at_most),
            });
        }
    }

    /// How fast one is beside another.
    pub(crate) fn rate(&mut self, name: &str, beside: &str, at_least: f64) {
        if let (Some(rate), Some(base)) = (self.per_second(name), self.per_second(beside)) {
            self.fact(Fact {
                name: format!("{name}, beside {beside}"),
                value: rate / base,
                unit: "×",
                bar: Bar::AtLeast(at_least),
            });
        }
    }

    /// What one figure costs beside another, as a part of it.
    pub(crate) fn cost(&mut self, name: &str, beside: &str, at_most: f64) {
        if let (Some(with), Some(without)) = (self.per_second(name), self.per_second(beside)) {
            self.fact(Fact {
                name: format!("{name}, what that costs"),
                value: (1.0 - with / without) * 100.0,
                unit: "%",
                bar: Bar::AtMost(at_most),
            });
        }
    }

    /// How long a figure's calls take: half of them, and all but one of a hundred.
    pub(crate) fn wait(&mut self, name: &str, p50_ms: f64, p99_ms: f64) {
        let Some(figure) = self.figures.iter().find(|figure| figure.name == name) else {
            return;
        };
        let told = [("p50", figure.p50_ms, p50_ms), ("p99", figure.p99_ms, p99_ms)];
        for (what, value, at_most) in told {
            if let Some(value) = value {
                self.fact(Fact {
                    name: format!("{name}, {what}"),
                    value,
                    unit: "ms",
                    bar: Bar::AtMost(at_most),
                });
            }
        }
    }

    /// Adds a figure with its ratios to these earlier ones.
    pub(crate) fn add(
        &mut self,
        name: &str,
        measured: &Measured,
        wal_bytes: Option<u64>,
        baselines: &[&str],
    ) {
        let ratio = |baseline: &&str| {
            let base = self.figures.iter().find(|figure| figure.name == *baseline)?;
            Some((base.name.clone(), measured.per_second / base.per_second))
        };
        let figure = Figure {
            name: name.to_owned(),
            per_second: measured.per_second,
            p50_ms: measured.p50_ms,
            p99_ms: measured.p99_ms,
            done: measured.done,
            wal_bytes_per_job: wal_bytes.map(|bytes| bytes as f64 / measured.done.max(1) as f64),
            ratios: baselines.iter().filter_map(ratio).collect(),
        };
        println!("{}", line(&figure));
        self.figures.push(figure);
    }

    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.set_header([
            "what",
            "per second",
            "p50 ms",
            "p99 ms",
            "WAL B/job",
            "ratio to a baseline of this run",
        ]);
        for figure in &self.figures {
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            table.add_row([
                Cell::new(&figure.name),
                right(format!("{:.0}", figure.per_second)),
                right(known(figure.p50_ms, |ms| format!("{ms:.2}"))),
                right(known(figure.p99_ms, |ms| format!("{ms:.2}"))),
                right(known(figure.wal_bytes_per_job, |bytes| format!("{bytes:.0}"))),
                Cell::new(ratios(figure)),
            ]);
        }
        let facts = self.facts.iter().map(|fact| format!("\n{}", fact.line()));
        format!("{table}{}", facts.collect::<String>())
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("{} cannot be made", folder.display()))?;
        }
        std::fs::write(path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}

fn ratios(figure: &Figure) -> String {
    figure
        .ratios
        .iter()
        .map(|(name, ratio)| format!("{ratio:.2} × {name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Nothing is said of what was not measured.
fn known(value: Option<f64>, said: impl Fn(f64) -> String) -> String {
    value.map_or_else(String::new, said)
}

fn line(figure: &Figure) -> String {
    let p50 = known(figure.p50_ms, |ms| format!("  p50 {ms:.2} ms"));
    let p99 = known(figure.p99_ms, |ms| format!("  p99 {ms:.2} ms"));
    let wal = known(figure.wal_bytes_per_job, |bytes| {
        format!("  {bytes:.0} B WAL/job")
    });
    let ratios = ratios(figure);
    format!(
        "{:<58} {:>9.0}/s{p50}{p99}{wal}  {ratios}",
        figure.name, figure.per_second
    )
}
