//! The tuned operations, coalesced: calls that arrive while one is under way ride in the next.

use std::sync::Arc;

use docket_core::Refused;
use docket_core::notification::DeliveryState;
use docket_store::{Backend, Coalescer, Turns, Weight};

use crate::engine::Kernel;
use crate::intake::group::submit_calls;
use crate::intake::submit::{CallAnswer, SubmitCall};
use crate::notification::create::{CreateResult, create_calls};
use crate::notification::prepare::Prepared;
use crate::notification::settle::{Ended, settle_calls};
use crate::processing::claim::{ClaimCall, Delivery, claim_calls, claim_calls_in_line};
use crate::processing::complete::{CompleteCall, CompleteResult, complete_calls};
use crate::processing::heartbeat::{HeartbeatCall, HeartbeatResult, heartbeat_calls};
use crate::review::commit::{CommitCall, CommitResult, commit_calls};
use crate::review::pop::Look;
use crate::review::pop_batch::{PopCall, pop_calls};

pub(crate) struct Batches {
    pub(crate) submit: Coalescer<SubmitCall, Option<CallAnswer>>,
    pub(crate) claim: Coalescer<ClaimCall, Delivery>,
    pub(crate) claim_in_line: Coalescer<ClaimCall, Delivery>,
    pub(crate) complete: Coalescer<CompleteCall, CompleteResult>,
    pub(crate) heartbeat: Coalescer<HeartbeatCall, HeartbeatResult>,
    pub(crate) review_pop: Coalescer<PopCall, Refused<Look>>,
    pub(crate) review_commit: Coalescer<CommitCall, CommitResult>,
    pub(crate) notification_create: Coalescer<Arc<Prepared>, CreateResult>,
    pub(crate) delivery_settle: Coalescer<Ended, Refused<DeliveryState>>,
}

impl Batches {
    pub(crate) fn start(kernel: &Arc<Kernel>) -> Self {
        let runners = kernel.config.runners;
        let turns = match kernel.store.backend() {
            Backend::Postgres => Turns::one_at_a_time(),
            Backend::Sqlite => Turns::any(),
        };
        macro_rules! coalesce {
            ($name:literal, $runners:expr, $weigh:expr, $run:ident) => {
                coalesce!($name, $runners, turns.clone(), $weigh, $run)
            };
            ($name:literal, $runners:expr, $turns:expr, $weigh:expr, $run:ident) => {{
                let kernel = Arc::clone(kernel);
                Coalescer::start($name, $runners, $turns, $weigh, move |calls| {
                    let kernel = Arc::clone(&kernel);
                    Box::pin(async move { $run(&kernel, calls).await })
                })
            }};
        }
        Self {
            submit: coalesce!("submit", runners, SubmitCall::weight, submit_calls),
            claim: coalesce!(
                "claim",
                runners,
                |call: &ClaimCall| Weight::of(call.request.limit as usize),
                claim_calls
            ),
            // One at a time, and in nobody's turn: whoever stands in line has a connection and waits.
            claim_in_line: coalesce!(
                "claim_in_line",
                1,
                Turns::any(),
                |call: &ClaimCall| Weight::of(call.request.limit as usize),
                claim_calls_in_line
            ),
            complete: coalesce!("complete", runners, CompleteCall::weight, complete_calls),
            heartbeat: coalesce!(
                "heartbeat",
                1,
                |call: &HeartbeatCall| Weight::of(call.beats.len()),
                heartbeat_calls
            ),
            review_pop: coalesce!(
                "review_pop",
                runners,
                |call: &PopCall| Weight::of(call.pop.limit as usize),
                pop_calls
            ),
            review_commit: coalesce!("review_commit", runners, CommitCall::weight, commit_calls),
            notification_create: coalesce!(
                "notification_create",
                runners,
                |new: &Arc<Prepared>| new.weight(),
                create_calls
            ),
            delivery_settle: coalesce!(
                "delivery_settle",
                runners,
                |_: &Ended| Weight::of(1),
                settle_calls
            ),
        }
    }
}
