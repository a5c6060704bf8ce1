//! The operations on the desk. They name things by small numbers, as those of the other model do, so that a shortened list stays meaningful.

use docket_core::review;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// How many reviewers a case has; one more is the lead.
pub const REVIEWERS: usize = 4;
/// The lead's number.
pub const LEAD: usize = REVIEWERS;
/// How many collections a case has; the second half is processed by a pipeline each.
pub const COLLECTIONS: usize = 4;
/// The orders in which reviews are offered.
pub const STRATEGIES: [review::Strategy; 3] = [
    review::Strategy::Fifo,
    review::Strategy::Priority,
    review::Strategy::Deadline,
];
/// The fields that items may have.
pub const FIELDS: [&str; 3] = ["total", "vendor", "note"];

/// One thing that somebody does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub enum Op {
    Submit {
        collection: u8,
        entries: Vec<Entry>,
    },
    /// A service brings an item up for review.
    Enter {
        collection: u8,
        entry: Entry,
    },
    /// A worker takes up to so many jobs and completes them in one call.
    Process {
        collection: u8,
        limit: u8,
        said: Said,
        lines: Option<u8>,
        amount: Option<u8>,
    },
    Pop {
        who: u8,
        collection: u8,
        limit: u8,
        strategy: Option<u8>,
        lock_timeout_s: Option<u16>,
    },
    Claim {
        by: By,
        review: Pick,
    },
    Heartbeat {
        by: By,
        reviews: Vec<Pick>,
    },
    Release {
        by: By,
        reviews: Vec<Pick>,
        skip: bool,
    },
    Reassign {
        review: Pick,
        to: u8,
    },
    HandOn {
        from: u8,
    },
    Commit {
        by: By,
        decisions: Vec<Verdict>,
    },
    Undo {
        by: By,
        review: Pick,
    },
    Reap {
        older_than_s: Option<u16>,
    },
    Pause {
        collection: u8,
    },
    Resume {
        collection: u8,
    },
    Reprocess {
        item: u8,
    },
    Cancel {
        item: u8,
    },
    Unlock {
        item: u8,
        field: u8,
    },
    Reviewer {
        who: u8,
        available: bool,
        capacity: Option<u8>,
    },
    Policy {
        collection: u8,
        policy: Policy,
    },
    /// Reviews are ordered anew, as the background does it.
    Rekey,
    /// What waits is given to those who are free, as the background does it.
    Assign,
    Pass {
        ms: i64,
    },
}

/// One item of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Entry {
    pub name: u8,
    pub content: u8,
    pub new_version: bool,
    pub said: Option<Said>,
    /// In tens of percent.
    pub confidence: Option<u8>,
    /// In tens.
    pub lines: Option<u8>,
    /// In five hundreds.
    pub amount: Option<u8>,
    /// Minutes from now.
    pub deadline_min: Option<i16>,
}

/// What a machine says of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which of [`FIELDS`], by bits.
    pub bits: u8,
    /// What it reads in all of them.
    pub value: u8,
    /// How sure it is on the average, in tens of percent, from 1 to 9.
    pub confidence: u8,
}

/// What a reviewer says of one review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Verdict {
    pub review: Pick,
    /// 0 approves, 1 rejects, the others correct.
    pub outcome: u8,
    pub token: Token,
    /// Which field is corrected; the last number names one that no item has.
    pub field: u8,
    pub value: u8,
    /// Whether a needed reason is forgotten, or the corrections are.
    pub careless: bool,
}

/// The token that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// None: whatever hold the reviewer has.
    Unsaid,
    /// The present one.
    Right,
    /// The one before.
    Old,
    /// One that nobody was given yet.
    Forged,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Who holds the review or has decided it.
    Holder,
    /// This one; the number after the reviewers' is the lead.
    Other(u8),
}

/// Which review somebody means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// One for which it can be done, if there is one.
    Fit(u8),
    /// Any that ever was.
    Any(u8),
}

/// A collection's policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Policy {
    /// Fifo, priority, deadline.
    pub strategy: u8,
    pub auto: bool,
    /// Who takes part, by bits.
    pub roster: Option<u8>,
    /// Which of [`WEIGHTS`].
    pub weights: u8,
    pub sla_hours: u8,
    pub lease_s: u16,
    pub max_retries: Option<u8>,
    pub undo_s: u16,
}

/// Weights that policies may have: confidence, deadline, complexity, value. With these, and inputs in tens, every key is a whole number of
/// milliseconds, so that nothing hangs on how a number is rounded.
pub const WEIGHTS: [[i64; 4]; 4] = [
    [40, 30, 20, 10],
    [10, 60, 20, 10],
    [50, 0, 30, 20],
    [5, 25, 45, 25],
];

fn said() -> impl Strategy<Value = Said> {
    (prop_oneof![1 => 0_u8..7, 3 => Just(7_u8)], 0_u8..4, 1_u8..=9).prop_map(|(bits, value, confidence)| {
        Said {
            bits,
            value,
            confidence,
        }
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let deadline = option::weighted(0.3, -180_i16..3_000);
    let numbers = (
        option::of(0_u8..=10),
        option::of(0_u8..=12),
        option::of(0_u8..=22),
    );
    (
        0_u8..8,
        0_u8..3,
        prop::bool::weighted(0.7),
        option::weighted(0.7, said()),
        numbers,
        deadline,
    )
        .prop_map(
            |(name, content, new_version, said, (confidence, lines, amount), deadline_min)| Entry {
                name,
                content,
                new_version,
                said,
                confidence,
                lines,
                amount,
                deadline_min,
            },
        )
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![5 => any::<u8>().prop_map(Pick::Fit), 1 => any::<u8>().prop_map(Pick::Any)]
}

fn by() -> impl Strategy<Value = By> {
    prop_oneof![5 => Just(By::Holder), 1 => (0..=REVIEWERS as u8).prop_map(By::Other)]
}

fn policy() -> impl Strategy<Value = Policy> {
    let roster = option::weighted(0.5, 1_u8..16);
    let leases = prop_oneof![Just(60_u16), Just(300), Just(1_800)];
    let undo = prop_oneof![Just(0_u16), Just(10), Just(600)];
    let rest = (leases, option::weighted(0.5, 0_u8..3), undo);
    (0_u8..3, any::<bool>(), roster, 0_u8..4, 1_u8..30, rest).prop_map(
        |(strategy, auto, roster, weights, sla_hours, (lease_s, max_retries, undo_s))| Policy {
            strategy,
            auto,
            roster,
            weights,
            sla_hours,
            lease_s,
            max_retries,
            undo_s,
        },
    )
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let token = prop_oneof![
        4 => Just(Token::Unsaid), 4 => Just(Token::Right), 1 => Just(Token::Old), 1 => Just(Token::Forged)
    ];
    (
        pick(),
        0_u8..5,
        token,
        0_u8..4,
        0_u8..3,
        prop::bool::weighted(0.05),
    )
        .prop_map(|(review, outcome, token, field, value, careless)| Verdict {
            review,
            outcome,
            token,
            field,
            value,
            careless,
        })
}

fn collection() -> std::ops::Range<u8> {
    0..COLLECTIONS as u8
}

fn intake_ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (collection(), vec(entry(), 1..5)).prop_map(|(collection, entries)| Op::Submit { collection, entries }),
        1 => (collection(), entry()).prop_map(|(collection, entry)| Op::Enter { collection, entry }),
        5 => (2..COLLECTIONS as u8, 1_u8..4, said(), option::of(0_u8..=12), option::of(0_u8..=22)).prop_map(
            |(collection, limit, said, lines, amount)| Op::Process { collection, limit, said, lines, amount }
        ),
    ]
}

fn hold_ops() -> impl Strategy<Value = Op> {
    let reviews = || vec(pick(), 1..4);
    let timeout = option::weighted(0.2, 0_u16..400);
    prop_oneof![
        9 => (0..REVIEWERS as u8, collection(), 1_u8..5, option::weighted(0.3, 0_u8..3), timeout).prop_map(
            |(who, collection, limit, strategy, lock_timeout_s)| Op::Pop { who, collection, limit, strategy, lock_timeout_s }
        ),
        3 => (by(), pick()).prop_map(|(by, review)| Op::Claim { by, review }),
        2 => (by(), reviews()).prop_map(|(by, reviews)| Op::Heartbeat { by, reviews }),
        4 => (by(), reviews(), any::<bool>()).prop_map(|(by, reviews, skip)| Op::Release { by, reviews, skip }),
        2 => (pick(), 0..REVIEWERS as u8).prop_map(|(review, to)| Op::Reassign { review, to }),
        1 => (0..REVIEWERS as u8).prop_map(|from| Op::HandOn { from }),
        9 => (by(), vec(verdict(), 1..3)).prop_map(|(by, decisions)| Op::Commit { by, decisions }),
        4 => (by(), pick()).prop_map(|(by, review)| Op::Undo { by, review }),
    ]
}

fn operator_ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => collection().prop_map(|collection| Op::Pause { collection }),
        4 => collection().prop_map(|collection| Op::Resume { collection }),
        3 => any::<u8>().prop_map(|item| Op::Reprocess { item }),
        1 => any::<u8>().prop_map(|item| Op::Cancel { item }),
        2 => (any::<u8>(), 0_u8..3).prop_map(|(item, field)| Op::Unlock { item, field }),
        3 => (0..REVIEWERS as u8, prop::bool::weighted(0.7), option::of(1_u8..5))
            .prop_map(|(who, available, capacity)| Op::Reviewer { who, available, capacity }),
        3 => (collection(), policy()).prop_map(|(collection, policy)| Op::Policy { collection, policy }),
        3 => Just(Op::Rekey),
        3 => Just(Op::Assign),
    ]
}

fn time_ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (1_i64..9_000).prop_map(|ms| Op::Pass { ms }),
        4 => (9_000_i64..400_000).prop_map(|ms| Op::Pass { ms }),
        1 => (1_i64..8).prop_map(|hours| Op::Pass { ms: hours * 3_600_000 }),
        3 => Just(Op::Reap { older_than_s: None }),
        2 => (0_u16..400).prop_map(|s| Op::Reap { older_than_s: Some(s) }),
    ]
}

/// Any operation.
pub fn op() -> impl Strategy<Value = Op> {
    prop_oneof![8 => intake_ops(), 16 => hold_ops(), 6 => operator_ops(), 5 => time_ops()]
}
