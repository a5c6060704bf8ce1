//! `docket reviews`: the review queue for those who review, and for those who lead them.

mod decide;
mod words;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use docket_client::Answers;
use docket_client::wire::collection::Strategy;
use docket_client::wire::review::{Pop, ReapReviews, Reassign, Release, ReviewsQuery};
use docket_core::id::ReviewId;
use docket_core::priority::Band;
use docket_core::review::ReviewState;
use serde::Serialize;
use serde_json::json;

use crate::remote::{PageArgs, REFUSED, RemoteArgs, Session, table};

/// What `docket reviews` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List what waits, what is in hands, and what a lead has to look at
    List(List),
    /// Show a review with what is needed to decide it
    Show {
        /// The review
        id: String,
    },
    /// Say why a review stands where it stands
    Explain {
        /// The review
        id: String,
    },
    /// Take the most urgent reviews
    Pop(PopArgs),
    /// Take a certain review, or keep the one that is held
    Claim {
        /// The review
        id: String,
    },
    /// Approve, correct or reject a review that is held
    Decide(decide::Args),
    /// Take the own decisions back, for a short while
    Undo {
        /// The reviews
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Give reviews back
    Release {
        /// The reviews
        #[arg(required = true)]
        ids: Vec<String>,
        /// Do not offer them to me again
        #[arg(long)]
        skip: bool,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Put a review into somebody's hands
    Reassign {
        /// The review
        id: String,
        /// Who is to have it
        #[arg(long, value_name = "REVIEWER")]
        to: String,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Show how queues stand
    Stats {
        /// The collection; all that the key may see where none is named
        collection: Option<String>,
    },
    /// Show who holds and decides how much
    Workload {
        /// The collection
        collection: String,
    },
    /// Find reviews whose holders are silent now, instead of when their time has come
    Reap {
        /// Also those whose holder has given no sign of life for so long
        #[arg(long, value_name = "SECONDS")]
        older_than_seconds: Option<f64>,
    },
}

#[derive(Debug, clap::Args)]
struct List {
    /// Of one collection
    #[arg(long)]
    collection: Option<String>,
    /// In one state: pending, in_review, approved, corrected, rejected, failed, cancelled
    #[arg(long, value_parser = word::<ReviewState>)]
    status: Option<ReviewState>,
    /// In one reviewer's hands, or decided by them
    #[arg(long, value_name = "REVIEWER")]
    assigned_to: Option<String>,
    /// As urgent as this: high, medium, low
    #[arg(long, value_parser = word::<Band>)]
    band: Option<Band>,
    /// Only those past their deadline
    #[arg(long)]
    overdue: bool,
    /// The order of what waits: priority, deadline, fifo
    #[arg(long, value_parser = word::<Strategy>)]
    sort: Option<Strategy>,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Debug, clap::Args)]
struct PopArgs {
    /// The collection
    collection: String,
    /// At most so many
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Another order than the collection's: priority, deadline, fifo
    #[arg(long, value_parser = word::<Strategy>)]
    strategy: Option<Strategy>,
    /// How long to wait while there are none, at most 60
    #[arg(long, value_name = "SECONDS")]
    wait_seconds: Option<f64>,
}

/// One of the contract's words.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(json!(text)).map_err(|error| error.to_string())
}

fn review_id(text: &str) -> Result<ReviewId> {
    text.parse()
        .with_context(|| format!("'{text}' is no review's id"))
}

fn review_ids(texts: &[String]) -> Result<Vec<ReviewId>> {
    texts.iter().map(|text| review_id(text)).collect()
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    let client = &session.client;
    match &args.action {
        Action::List(filter) => list(&session, filter).await,
        Action::Show { id } => session.show(&client.review(id).await?, words::entry),
        Action::Explain { id } => session.show(&client.review_explain(id).await?, words::explanation),
        Action::Pop(args) => pop(&session, args).await,
        Action::Claim { id } => session.show(&client.review_claim(id).await?, words::entry),
        Action::Decide(args) => decide::run(&session, args).await,
        Action::Undo { ids } => {
            let answers = client.review_undo(&review_ids(ids)?).await?;
            each(&session, ids, &answers, |id, _| {
                format!("Review {id} is undecided again, and yours.")
            })
        }
        Action::Release { ids, skip, reason } => {
            let release = Release {
                queue_ids: review_ids(ids)?.iter().map(|id| id.uuid()).collect(),
                skip: *skip,
                reason: reason.clone(),
            };
            let answers = client.review_release(&release).await?;
            each(&session, ids, &answers, |id, _| match skip {
                true => format!("Review {id} is given back, and not offered to you again."),
                false => format!("Review {id} is given back."),
            })
        }
        Action::Reassign { id, to, reason } => {
            let reassign = Reassign {
                to: to.clone(),
                reason: reason.clone(),
            };
            session.show(&client.review_reassign(id, &reassign).await?, |entry| {
                format!(
                    "{to} has review {}, about {}.",
                    entry.queue_id, entry.generation_id
                )
            })
        }
        Action::Stats { collection } => stats(&session, collection.as_deref()).await,
        Action::Workload { collection } => {
            session.show(&client.review_workload(collection).await?, words::workload)
        }
        Action::Reap { older_than_seconds } => {
            let reap = ReapReviews {
                older_than_seconds: *older_than_seconds,
            };
            session.show(&client.review_reap(&reap).await?, |reaped| {
                format!("{} put back, {} left to a lead.", reaped.requeued, reaped.failed)
            })
        }
    }
}

async fn list(session: &Session, list: &List) -> Result<ExitCode> {
    let fetch = async |limit, cursor: Option<&str>| {
        let query = ReviewsQuery {
            collection_id: list.collection.clone(),
            status: list.status,
            assigned_to: list.assigned_to.clone(),
            band: list.band,
            overdue: list.overdue.then_some(true),
            sort: list.sort,
            limit,
            cursor: cursor.map(str::to_owned),
        };
        session.client.reviews(&query).await
    };
    let found = list.page.gather(fetch).await?;
    session.show_page(&found, words::HEADS, words::row)
}

async fn pop(session: &Session, args: &PopArgs) -> Result<ExitCode> {
    let pop = Pop {
        collection_id: args.collection.clone(),
        limit: args.limit,
        strategy: args.strategy,
        lock_timeout_seconds: None,
        wait_seconds: args.wait_seconds,
    };
    let popped = session.client.review_pop(&pop).await?;
    session.show(&popped, |popped| match (&popped.items[..], &popped.empty) {
        ([], Some(empty)) => words::empty(empty),
        ([one], _) => words::entry(one),
        (several, _) => format!(
            "{}\nLook at one with: docket reviews show ID",
            table(words::HEADS, several.iter().map(words::row))
        ),
    })
}

async fn stats(session: &Session, collection: Option<&str>) -> Result<ExitCode> {
    let client = &session.client;
    if let Some(collection) = collection {
        return session.show(&client.review_stats(collection).await?, words::stats);
    }
    let all = PageArgs::all();
    let collections = all
        .gather(async |limit, cursor| client.collections(limit, cursor).await)
        .await?;
    let mut found = Vec::with_capacity(collections.items.len());
    for collection in &collections.items {
        found.push(client.review_stats(&collection.id).await?);
    }
    session.show(&json!({ "items": found }), |_| words::stats_table(&found))
}

/// Shows a result for each review; the exit code says whether all were taken.
fn each<T: Serialize>(
    session: &Session,
    ids: &[String],
    answers: &Answers<T>,
    taken: impl Fn(&str, &T) -> String,
) -> Result<ExitCode> {
    let results: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(taken) => json!(taken),
            Err(error) => json!({ "ok": false, "error": error }),
        })
        .collect();
    session.show(&json!({ "results": results }), |_| {
        let line = |(id, answer): (&String, &Result<T, _>)| match answer {
            Ok(answer) => taken(id, answer),
            Err(error) => format!("Review {id} is refused: {}", words::refusal(error)),
        };
        ids.iter().zip(answers).map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(match answers.iter().all(Result::is_ok) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(REFUSED),
    })
}
