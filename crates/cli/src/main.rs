//! `docket`: the one program of Docket. Each command has a module of its own. Some open a database ([`target`]), most ask a
//! server ([`remote`]); how things are shown is in [`screen`].
//!
//! Exit codes: 0 done; 1 the answer is no: the server refused it, the doctor found differences, the log is not whole, an item ended
//! badly; 2 it could not be done or was asked wrongly (the reason is on standard error).
//!
//! Deliberately absent: rules and SQL. A command opens the engine or asks a server.

mod audit;
mod backfill;
mod bench;
mod collections;
mod completions;
mod config;
mod demo;
mod doctor;
mod insights;
mod items;
mod jobs;
mod keys;
mod logs;
mod migrate;
mod notifications;
mod pauses;
mod pipelines;
mod remote;
mod reviewers;
mod reviews;
mod screen;
mod serve;
mod target;
mod tenants;
mod worker;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One durable queue for work that machines do and people check.
#[derive(Debug, Parser)]
#[command(name = "docket", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Take the log out with its proof, and prove it
    Audit(audit::Args),
    /// Move an existing queue in: from JSON lines, or from a PostgreSQL table
    Backfill(Box<backfill::Args>),
    /// Put a load on a server, and measure it
    ///
    /// Items are submitted, then claimed and completed, in batches over several connections. It takes an admin's key, and makes a
    /// pipeline and tenants of its own, named docket-bench. No job is left behind; the items and their log stay.
    Bench(bench::Args),
    /// Show Docket at work: tenants, lanes, leases, a dead worker, a failed step
    Demo(demo::Args),
    /// Recount every limit, position and counter against the rows
    Doctor(doctor::Args),
    /// Serve the HTTP API
    Serve(Box<serve::Args>),
    /// Bring the database's schema up to date
    Migrate(migrate::Args),
    /// Work on the jobs of a pipeline: a command for each
    Worker(worker::Args),
    /// Report a finished step, from inside of a worker's command
    Step(worker::step::Args),
    /// Make, list and revoke keys
    Keys(keys::Args),
    /// Whose work it is, and their limits
    Tenants(tenants::Args),
    /// Sets of items that share a review policy
    Collections(collections::Args),
    /// How items are processed
    Pipelines(pipelines::Args),
    /// Start nothing more of a lane, a pipeline or everything
    Pause(pauses::PauseArgs),
    /// Lift a pause
    Resume(pauses::ResumeArgs),
    /// List what is paused
    Pauses(pauses::ListArgs),
    /// Submit items, find them, see what became of them
    Items(items::Args),
    /// Decide on what machines have done, the most urgent first
    Reviews(reviews::Args),
    /// Who reviews, and how much they may hold
    Reviewers(reviewers::Args),
    /// Tell people, and see what became of it
    Notifications(notifications::Args),
    /// Messages on their way, and what to do with those that are stuck
    Deliveries(notifications::DeliveriesArgs),
    /// A worker's words by hand
    Jobs(jobs::Args),
    /// What decided reviews tell of the machine, of the reviewers and of deadlines
    Insights(insights::Args),
    /// Print a script that completes our commands in a shell
    Completions(completions::Args),
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
            Command::Backfill(args) => backfill::run(args).await,
            Command::Bench(args) => bench::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::Migrate(args) => migrate::run(args).await,
            Command::Worker(args) => worker::run(args).await,
            Command::Step(args) => worker::step::run(args).await,
            Command::Keys(args) => keys::run(args).await,
            Command::Tenants(args) => tenants::run(args).await,
            Command::Collections(args) => collections::run(args).await,
            Command::Pipelines(args) => pipelines::run(args).await,
            Command::Pause(args) => pauses::pause(args).await,
            Command::Resume(args) => pauses::resume(args).await,
            Command::Pauses(args) => pauses::list(args).await,
            Command::Items(args) => items::run(args).await,
            Command::Reviews(args) => reviews::run(args).await,
            Command::Reviewers(args) => reviewers::run(args).await,
            Command::Notifications(args) => notifications::run(args).await,
            Command::Deliveries(args) => notifications::deliveries(args).await,
            Command::Jobs(args) => jobs::run(args).await,
            Command::Insights(args) => insights::run(args).await,
            Command::Completions(args) => completions::run(args),
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
    for cause in remote::causes(error) {
        let words = target::without_password(&cause.to_string());
        // Some errors repeat their cause in their own words.
        if !said.contains(&words) {
            writeln!(stderr, "  because {words}").ok();
        }
        said = words;
    }
    if let Some(advice) = remote::advice(error) {
        writeln!(stderr, "  {advice}").ok();
    }
    ExitCode::from(remote::exit_code(error))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn no_two_flags_of_a_command_have_the_same_name() {
        Cli::command().debug_assert();
    }
}
