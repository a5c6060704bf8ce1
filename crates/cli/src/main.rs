//! `docket`: the one program of Docket. Each command has a module of its own; what they share is which database is
//! meant ([`target`]) and how things are shown ([`screen`]).
//!
//! Exit codes: 0 done, 1 the doctor found differences or the log is not whole, 2 it could not be done (the reason is on standard error).
//!
//! Deliberately absent: rules and SQL. A command opens the engine and asks it.

mod audit;
mod config;
mod demo;
mod doctor;
mod logs;
mod migrate;
mod screen;
mod serve;
mod target;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One durable queue for work that machines do and people check.
#[derive(Debug, Parser)]
#[command(name = "docket", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take the log out with its proof, and prove it
    Audit(audit::Args),
    /// Show Docket at work: tenants, lanes, leases, a dead worker, a failed step
    Demo(demo::Args),
    /// Recount every limit, position and counter against the rows
    Doctor(doctor::Args),
    /// Serve the HTTP API
    Serve(Box<serve::Args>),
    /// Bring the database's schema up to date
    Migrate(migrate::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            return complain(&anyhow::Error::new(error).context("the program cannot start its threads"));
        }
    };
    let ended = runtime.block_on(async {
        match &cli.command {
            Command::Audit(args) => audit::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::Migrate(args) => migrate::run(args).await,
            Command::Serve(args) => serve::run(args).await,
        }
    });
    match ended {
        Ok(code) => code,
        // Whoever read our output has gone away, as `head` does; that is no failure of ours.
        Err(error) if screen::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

/// Says what went wrong and why, one cause a line.
fn complain(error: &anyhow::Error) -> ExitCode {
    let mut stderr = std::io::stderr().lock();
    let mut said = target::without_password(&error.to_string());
    writeln!(stderr, "docket: {said}").ok();
    for cause in error.chain().skip(1) {
        let words = target::without_password(&cause.to_string());
        // Some errors repeat their cause in their own words.
        if !said.contains(&words) {
            writeln!(stderr, "  because {words}").ok();
        }
        said = words;
    }
    ExitCode::from(2)
}
