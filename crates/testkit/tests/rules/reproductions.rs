//! What the state-machine test has found, each as the few operations that showed it, on both databases.

use docket_testkit::model::op::{Entry, Op, Pick, Which};
use docket_testkit::model::run::Arena;
use docket_testkit::model::search::{On, agree};

/// Engine and model have to agree on the operations that each test returns.
macro_rules! agree_on_both {
    ($(fn $name:ident() $ops:block)+) => {
        $(fn $name() -> Vec<Op> $ops)+

        mod sqlite {
            $(#[test] fn $name() { super::agree::<super::Arena>(super::On::Sqlite, &super::$name()); })+
        }

        mod postgres {
            $(#[test] fn $name() { super::agree::<super::Arena>(super::On::Postgres, &super::$name()); })+
        }
    };
}

const fn item(name: u8, content: u8) -> Entry {
    Entry {
        name: Some(name),
        content,
        new_version: false,
        fields: false,
    }
}

const fn version(name: u8, content: u8) -> Entry {
    Entry {
        new_version: true,
        ..item(name, content)
    }
}

fn submit(tenant: u8, entries: &[Entry]) -> Op {
    Op::Submit {
        tenant,
        pipeline: 0,
        entries: entries.to_vec(),
        key: None,
    }
}

const fn claim(limit: u8) -> Op {
    Op::Claim {
        pipeline: 0,
        worker: 0,
        limit,
        lease_s: Some(60),
    }
}

fn fail(holds: &[Which], retryable: bool, step: Option<u8>) -> Op {
    Op::Fail {
        holds: holds.to_vec(),
        retryable,
        step,
    }
}

const fn uploads(tenant: u8, per_hour: u8) -> Op {
    Op::Limits {
        tenant,
        jobs: 1,
        uploads: Some(per_hour),
    }
}

const HOUR_MS: i64 = 3_600_000;
const REAP: Op = Op::Reap { older_than_s: None };

agree_on_both! {
    fn jobs_of_one_call_are_numbered_in_its_order_around_a_next_version() {
        vec![submit(0, &[item(1, 1), version(1, 2), item(2, 1)]), claim(1)]
    }

    fn a_job_that_is_named_twice_in_one_call_of_failures_is_answered_twice() {
        vec![submit(0, &[item(1, 1)]), claim(1), fail(&[Which::Live(0), Which::Live(0)], true, None)]
    }

    fn an_old_token_beside_the_right_one_does_not_spoil_it() {
        vec![
            submit(0, &[item(1, 1)]),
            claim(1),
            Op::Release { holds: vec![Which::Live(0)] },
            claim(1),
            fail(&[Which::Past(0), Which::Live(0)], true, None),
        ]
    }

    fn a_failure_without_a_step_does_not_keep_the_step_of_an_earlier_one() {
        vec![
            submit(0, &[item(1, 1)]),
            claim(1),
            fail(&[Which::Live(0)], true, Some(0)),
            Op::Pass { ms: 5_000 },
            REAP,
            claim(1),
            fail(&[Which::Live(0)], true, None),
        ]
    }

    fn a_worker_that_fell_silent_keeps_no_failed_step_either() {
        vec![
            submit(0, &[item(1, 1)]),
            claim(1),
            fail(&[Which::Live(0)], true, Some(0)),
            Op::Pass { ms: 5_000 },
            REAP,
            claim(1),
            Op::Pass { ms: 60_000 },
            REAP,
        ]
    }

    fn a_worker_whose_job_was_given_up_as_stale_is_told_that_its_lease_is_lost() {
        let definition = docket_testkit::model::op::Definition {
            stale_fails: true,
            ..docket_testkit::model::op::Definition::FIRST
        };
        vec![
            Op::Define { pipeline: 0, definition },
            submit(0, &[item(1, 1)]),
            claim(1),
            Op::Pass { ms: 60_000 },
            REAP,
            fail(&[Which::Past(0)], true, None),
        ]
    }

    fn a_hold_that_is_named_twice_in_one_call_of_heartbeats_is_answered_twice() {
        let holds = vec![Which::Live(0), Which::Live(0)];
        vec![submit(0, &[item(1, 1)]), claim(1), Op::Heartbeat { holds, lease_s: None }]
    }

    fn a_hold_that_is_named_twice_in_one_call_of_releases_is_given_back_once() {
        let holds = vec![Which::Live(0), Which::Live(0)];
        vec![submit(0, &[item(1, 1)]), claim(1), Op::Release { holds }]
    }

    fn what_is_refused_by_the_limit_within_one_call_is_told_how_long_to_wait() {
        vec![uploads(0, 2), submit(0, &[item(1, 1), item(2, 1), item(3, 1)])]
    }

    fn after_a_limit_was_lowered_the_wait_is_until_enough_have_left_the_window() {
        vec![
            uploads(0, 3),
            submit(0, &[item(1, 1)]),
            Op::Pass { ms: HOUR_MS / 2 },
            submit(0, &[item(2, 1), item(3, 1)]),
            uploads(0, 1),
            submit(0, &[item(4, 1)]),
        ]
    }

    fn an_item_that_is_processed_again_still_shows_its_result() {
        vec![
            submit(0, &[item(1, 1)]),
            claim(1),
            Op::Complete { holds: vec![Which::Live(0)], fields: Some(1) },
            Op::Reprocess { item: Pick::Any(0) },
        ]
    }
}
