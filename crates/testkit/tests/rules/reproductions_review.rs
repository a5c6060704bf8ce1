//! What writing and running the model of the desk has found, each as a few operations that show it, on both databases.

use docket_testkit::desk_model::op::{By, Entry, Op, Pick, Policy, Said, Token, Verdict};
use docket_testkit::desk_model::run::Arena;
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

/// Reviewers take what they like, for five minutes; ten minutes to take a decision back.
const POLICY: Policy = Policy {
    strategy: 0,
    auto: false,
    roster: None,
    weights: 0,
    sla_hours: 24,
    lease_s: 300,
    max_retries: None,
    undo_s: 600,
};

const fn entry(name: u8) -> Entry {
    Entry {
        name,
        content: 0,
        new_version: true,
        said: None,
        confidence: None,
        lines: None,
        amount: None,
        deadline_min: None,
    }
}

fn submit(collection: u8, names: std::ops::Range<u8>) -> Op {
    Op::Submit {
        collection,
        entries: names.map(entry).collect(),
    }
}

const fn policy(collection: u8, policy: Policy) -> Op {
    Op::Policy { collection, policy }
}

const fn pop(who: u8, collection: u8, limit: u8) -> Op {
    Op::Pop {
        who,
        collection,
        limit,
        strategy: None,
        lock_timeout_s: None,
    }
}

fn approve(token: Token) -> Op {
    Op::Commit {
        by: By::Holder,
        decisions: vec![Verdict {
            review: Pick::Fit(0),
            outcome: 0,
            token,
            field: 0,
            value: 0,
            careless: false,
        }],
    }
}

const fn process(collection: u8, limit: u8) -> Op {
    Op::Process {
        collection,
        limit,
        said: Said {
            bits: 1,
            value: 0,
            confidence: 5,
        },
        lines: None,
        amount: None,
    }
}

const UNDO: Op = Op::Undo {
    by: By::Holder,
    review: Pick::Fit(0),
};

const CLAIM: Op = Op::Claim {
    by: By::Holder,
    review: Pick::Fit(0),
};

agree_on_both! {
    fn a_claim_by_who_lost_the_lease_is_a_new_hold() {
        vec![submit(0, 0..1), pop(0, 0, 1), Op::Pass { ms: 300_000 }, CLAIM, approve(Token::Old), approve(Token::Right)]
    }

    fn who_held_all_they_may_and_lost_it_can_take_again() {
        let capacity = Op::Reviewer { who: 0, available: true, capacity: Some(1) };
        vec![submit(0, 0..2), capacity, pop(0, 0, 2), Op::Pass { ms: 300_000 }, pop(1, 0, 1), pop(0, 0, 1), pop(0, 0, 1)]
    }

    fn reviews_of_one_call_come_up_in_its_order() {
        vec![policy(0, POLICY), submit(0, 0..8), pop(0, 0, 8)]
    }

    fn jobs_completed_in_one_call_come_up_in_its_order() {
        vec![policy(2, POLICY), submit(2, 0..4), submit(2, 4..8), process(2, 8), pop(0, 2, 8)]
    }

    fn a_review_that_comes_up_anew_is_behind_the_others_and_has_its_whole_time() {
        vec![
            policy(2, POLICY),
            submit(2, 0..2),
            process(2, 2),
            Op::Pass { ms: 3_600_000 },
            Op::Reprocess { item: 0 },
            process(2, 1),
            policy(2, Policy { sla_hours: 5, ..POLICY }),
            Op::Rekey,
            pop(0, 2, 2),
        ]
    }

    fn a_decision_stands_when_its_item_was_processed_again() {
        vec![
            policy(2, POLICY),
            submit(2, 0..1),
            process(2, 1),
            pop(0, 2, 1),
            approve(Token::Right),
            Op::Pass { ms: 1_000 },
            Op::Reprocess { item: 0 },
            process(2, 1),
            UNDO,
        ]
    }

    fn a_decision_taken_back_is_ordered_by_the_policy_of_the_day() {
        vec![
            policy(0, Policy { strategy: 1, ..POLICY }),
            submit(0, 0..1),
            pop(0, 0, 1),
            approve(Token::Right),
            policy(0, Policy { strategy: 1, sla_hours: 1, weights: 1, ..POLICY }),
            Op::Rekey,
            Op::Pass { ms: 60_000 },
            Op::Rekey,
            UNDO,
        ]
    }

    fn what_runs_out_is_assigned_by_its_urgency() {
        let auto = Policy { auto: true, strategy: 1, ..POLICY };
        let sure = |name, confidence| Entry { confidence: Some(confidence), ..entry(name) };
        vec![
            policy(1, auto),
            Op::Submit { collection: 1, entries: vec![sure(0, 9)] },
            Op::Submit { collection: 1, entries: vec![sure(1, 1), sure(2, 5), sure(3, 7)] },
            Op::Pass { ms: 300_000 },
            Op::Reap { older_than_s: None },
        ]
    }
}
