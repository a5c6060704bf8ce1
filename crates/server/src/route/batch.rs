//! Answers to batches: a result for each entry, in its place.

use docket_core::{Refusal, Refused};
use docket_engine as engine;
use docket_wire::{Outcome, Results};

use crate::error::{ApiResult, refused_entry};
use crate::extract::Json;

/// One answer as the wire writes it.
pub(crate) fn outcome<T, U>(answer: Refused<T>, show: impl FnOnce(T) -> U) -> Outcome<U> {
    match answer {
        Ok(taken) => Outcome::Taken(show(taken)),
        Err(refusal) => Outcome::Refused(refused_entry(&refusal)),
    }
}

/// Asks the engine about the entries that can be asked about, and puts every answer in its place.
pub(crate) async fn each<T, U, V>(
    entries: Vec<Refused<T>>,
    ask: impl AsyncFnOnce(Vec<T>) -> engine::Result<Vec<Refused<U>>>,
    show: impl Fn(U) -> V,
) -> ApiResult<Json<Results<V>>> {
    let mut refused = Vec::with_capacity(entries.len());
    let mut sound = Vec::with_capacity(entries.len());
    for entry in entries {
        match entry {
            Ok(entry) => {
                sound.push(entry);
                refused.push(None);
            }
            Err(refusal) => refused.push(Some(refusal)),
        }
    }
    let answers = match sound.is_empty() && !refused.is_empty() {
        true => Vec::new(),
        false => ask(sound).await?,
    };
    let mut answers = answers.into_iter();
    let results = refused.into_iter().map(|refused| {
        let answer = refused.map_or_else(|| answers.next().unwrap_or(Err(Refusal::LeaseLost)), Err);
        outcome(answer, &show)
    });
    Ok(Json(Results {
        results: results.collect(),
    }))
}
