//! Many cases: drawn from a seed, run one after the other, and shrunk where they fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use docket_core::random::{Random as _, SystemRandom};
use proptest::collection::vec;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::run::Difference;
use crate::Database;

/// A model beside the real engine: what can be done to both, and how a list of it is run.
pub trait StateMachine: Sized {
    /// One thing that somebody does.
    type Op: Clone + std::fmt::Debug + PartialEq;
    /// A rule of the model made wrong.
    type Mutation: Copy + std::fmt::Debug;
    /// The test that runs it.
    const TEST: &'static str;
    /// Where what it finds is kept.
    const REPRODUCTIONS: &'static str;

    /// Any operation.
    fn op() -> impl Strategy<Value = Self::Op>;

    /// Both of them, on an empty database.
    fn open(database: Database) -> impl Future<Output = Self>;

    /// How often each action was written to the log, in all cases that went well.
    fn actions(&self) -> &BTreeMap<&'static str, usize>;

    /// Runs the operations as a case of its own and leaves the database ready for the next. Everything is compared after every
    /// so many operations, and at the end.
    fn run(
        &mut self,
        ops: &[Self::Op],
        check_every: usize,
        mutation: Option<Self::Mutation>,
    ) -> impl Future<Output = Result<(), Difference>>;
}

/// After so many operations everything is compared; after each one while a failing case is shortened.
const CHECK_EVERY: usize = 20;
/// How long proptest may simplify a failing case, operation by operation, before all that is not needed is left out.
const SHRINK_MS: u32 = 30_000;

/// Which database a search runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum On {
    Sqlite,
    Postgres,
}

impl On {
    /// An empty database of this kind.
    pub async fn database(self) -> Database {
        match self {
            Self::Sqlite => Database::sqlite(),
            Self::Postgres => Database::postgres().await,
        }
    }
}

/// What to search, and how far.
#[derive(Clone, Copy, Debug)]
pub struct Search<M: StateMachine> {
    /// Where.
    pub on: On,
    /// What the cases are drawn from.
    pub seed: u64,
    /// How many cases.
    pub cases: u32,
    /// The most operations of a case.
    pub longest: usize,
    /// How often a failing case may be run again to shorten it.
    pub shrinks: u32,
    /// The rule made wrong.
    pub mutation: Option<M::Mutation>,
}

/// What a search did that found nothing.
#[derive(Clone, Debug)]
pub struct Done {
    /// The operations.
    pub steps: usize,
    /// How often each action was written to the log.
    pub actions: BTreeMap<&'static str, usize>,
}

/// A case on which engine and model differ, as short as it could be made.
#[derive(Clone, Debug)]
pub struct Found<Op> {
    /// The operations.
    pub ops: Vec<Op>,
    /// What differs after them.
    pub problem: String,
}

/// The seed of `DOCKET_MODEL_SEED`, or a new one.
pub fn seed() -> u64 {
    number_of("DOCKET_MODEL_SEED").unwrap_or_else(|| SystemRandom.next_u64())
}

/// The number of cases of `DOCKET_MODEL_CASES`, or this one.
pub fn cases(usual: u32) -> u32 {
    number_of("DOCKET_MODEL_CASES").unwrap_or(usual)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

/// Runs this one case on an empty database, everything compared after every operation; engine and model have to agree.
pub fn agree<M: StateMachine>(on: On, ops: &[M::Op]) {
    let run = async { M::open(on.database().await).await.run(ops, 1, None).await };
    if let Err(difference) = runtime().block_on(run) {
        panic!("engine and model differ on {on:?}:\n{}", difference.problem);
    }
}

fn number_of<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().ok();
    assert!(number.is_some(), "{variable} has to be a number, not '{text}'");
    number
}

impl<M: StateMachine> Search<M> {
    /// Runs the cases; the first on which engine and model differ, shortened, or what was done.
    pub fn run(&self) -> Result<Done, Found<M::Op>> {
        let config = Config {
            cases: self.cases,
            failure_persistence: None,
            max_shrink_iters: self.shrinks,
            max_shrink_time: SHRINK_MS,
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let hunt = Hunt::new(self);
        let case = |ops: Vec<M::Op>| hunt.case(&ops).map_err(TestCaseError::fail);
        match TestRunner::new_with_rng(config, rng).run(&vec(M::op(), 1..=self.longest), case) {
            Ok(()) => Ok(hunt.done()),
            Err(TestError::Fail(..)) => Err(hunt.shortest()),
            Err(TestError::Abort(reason)) => panic!("the search was given up: {reason}"),
        }
    }

    /// The same, but a difference ends the test with all that is needed to see it again.
    pub fn expect_nothing(&self) -> Done {
        self.run().unwrap_or_else(|found| {
            let ops: Vec<_> = found.ops.iter().map(|op| format!("    {op:?},\n")).collect();
            panic!(
                "engine and model differ on {:?} after {} operations:\n{}\n\nthe operations:\nvec![\n{}]\n\nrun it again by\n  \
                 DOCKET_MODEL_SEED={} scripts/with-postgres cargo test -p docket-testkit --test {}\n\
                 and keep the list as a named test in crates/testkit/tests/{}",
                self.on,
                found.ops.len(),
                found.problem,
                ops.concat(),
                self.seed,
                M::TEST,
                M::REPRODUCTIONS,
            )
        })
    }
}

/// A search under way.
struct Hunt<'a, M: StateMachine> {
    search: &'a Search<M>,
    runtime: tokio::runtime::Runtime,
    /// A case that fails may leave anything behind: the next one gets a database of its own.
    arena: RefCell<Option<M>>,
    steps: Cell<usize>,
    /// The last case that failed, cut off after the operation that showed it.
    failing: RefCell<Option<Found<M::Op>>>,
}

impl<'a, M: StateMachine> Hunt<'a, M> {
    fn new(search: &'a Search<M>) -> Self {
        Self {
            search,
            runtime: runtime(),
            arena: RefCell::new(None),
            steps: Cell::default(),
            failing: RefCell::new(None),
        }
    }

    fn case(&self, ops: &[M::Op]) -> Result<(), String> {
        if let Some(known) = &*self.failing.borrow()
            && ops.starts_with(&known.ops)
        {
            return Err(known.problem.clone());
        }
        // While a failing case is shortened: the sooner the difference shows, the better.
        let shortening = self.failing.borrow().is_some();
        let check_every = if shortening { 1 } else { CHECK_EVERY };
        let run = async {
            let mut own = match self.arena.take() {
                Some(own) => own,
                None => M::open(self.search.on.database().await).await,
            };
            own.run(ops, check_every, self.search.mutation).await?;
            self.arena.replace(Some(own));
            Ok(())
        };
        if let Err(Difference { after, problem }) = self.runtime.block_on(run) {
            let ops = ops[..after].to_vec();
            self.failing.replace(Some(Found {
                ops,
                problem: problem.clone(),
            }));
            return Err(problem);
        }
        self.steps.set(self.steps.get() + ops.len());
        Ok(())
    }

    fn done(&self) -> Done {
        let actions = self.arena.take().map(|own| own.actions().clone());
        Done {
            steps: self.steps.get(),
            actions: actions.unwrap_or_default(),
        }
    }

    /// The failing case with all that can be left out left out: halves of it first, then ever smaller pieces.
    fn shortest(&self) -> Found<M::Op> {
        let known = || self.failing.borrow().clone().expect("a case has failed");
        let mut tries = 0;
        let mut piece = known().ops.len().div_ceil(2);
        while piece > 0 && tries < self.search.shrinks {
            let before = known().ops.len();
            let mut from = 0;
            while from < known().ops.len() && tries < self.search.shrinks {
                let mut ops = known().ops;
                ops.drain(from..(from + piece).min(ops.len()));
                tries += 1;
                if self.case(&ops).is_ok() {
                    from += piece;
                }
            }
            if piece == 1 && known().ops.len() == before {
                break;
            }
            piece = (piece / 2).max(1);
        }
        known()
    }
}
