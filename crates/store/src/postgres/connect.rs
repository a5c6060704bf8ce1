//! Connections. There are two pools: the general one, and one for the tuned operations, whose planner is told to follow
//! the indexes they were written for.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use tokio::sync::mpsc;
use tokio_postgres::Config;

use super::clock::DatabaseClock;
use super::dial::Dial;
use super::floor::Floors;
use super::listen::Listener;
use super::tls::{self, Tls};
use crate::error::{Error, Result, is_transient};
use crate::hint::{Hint, Hints};
use crate::store::PostgresConfig;

/// For the tuned statements: plan once, by index, whatever the statistics say; looking a row up costs next to nothing, so that no plan
/// made while a table was young walks it from end to end when it is old.
const HOT_OPTIONS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off \
     -c enable_mergejoin=off -c enable_bitmapscan=off -c enable_material=off -c random_page_cost=0.1";
/// For all: no compiling of plans, and no transaction that a dead network leaves open for long.
const OPTIONS: &str = "-c jit=off -c idle_in_transaction_session_timeout=60s";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Which life the server is in: changes whenever it recovers from a crash, and is open to everybody. (A server that crashed has
/// lost its statistics, and notes when it began new ones.)
pub(super) const LIFE: &str =
    "select coalesce((extract(epoch from stats_reset) * 1000000)::bigint, 0) from pg_stat_bgwriter";

/// The server's life as the newest connection found it.
pub(super) type Life = Arc<AtomicI64>;

/// Which pool an operation uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    General,
    Hot,
}

/// A PostgreSQL database.
#[derive(Clone, Debug)]
pub(crate) struct Postgres {
    general: Pool,
    hot: Pool,
    pub(super) patience: Duration,
    life: Life,
    pub(crate) clock: Arc<DatabaseClock>,
    pub(super) floors: Arc<Floors>,
}

impl Postgres {
    pub(crate) async fn open(
        config: &PostgresConfig,
        hints: &Hints,
        outgoing: mpsc::Receiver<Hint>,
    ) -> Result<Self> {
        let (url, wanted) = tls::split(&config.url)?;
        let mut parsed = parse(&url)?;
        let dial = Dial::new(&mut parsed, Tls::new(&wanted)?)?;
        let life = Life::default();
        let opened = Self {
            general: pool(&parsed, OPTIONS, &dial, config.connections, &life)?,
            hot: pool(
                &parsed,
                &format!("{OPTIONS} {HOT_OPTIONS}"),
                &dial,
                config.hot_connections,
                &life,
            )?,
            patience: config.patience,
            life,
            clock: Arc::default(),
            floors: Arc::default(),
        };
        let connection = opened.connection(Route::General).await?;
        crate::migrate::postgres(&connection).await?;
        drop(connection);
        opened.clock.measure(&opened.general).await?;
        opened.clock.keep_measuring(opened.general.clone());
        let listening = with_options(&parsed, OPTIONS);
        let floors = Arc::clone(&opened.floors);
        Listener::start((listening, dial), opened.general.clone(), floors, hints, outgoing);
        Ok(opened)
    }

    /// A connection from the pool.
    pub(super) async fn connection(&self, route: Route) -> Result<Object> {
        let pool = match route {
            Route::General => &self.general,
            Route::Hot => &self.hot,
        };
        pool.get().await.map_err(|error| no_connection(&error))
    }

    /// The server's life. Whoever asks before a transaction gets the one that the transaction lives in: a connection notes it
    /// before it is first used, and does not outlive it.
    pub(super) fn life(&self) -> i64 {
        self.life.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.general.close();
        self.hot.close();
    }
}

pub(crate) fn parse(url: &str) -> Result<Config> {
    let mut config = Config::from_str(url).map_err(|error| {
        // The driver's words never contain the password; the URL might.
        Error::Open(format!(
            "the PostgreSQL URL cannot be read: {error}; it looks like postgres://user@host:5432/name"
        ))
    })?;
    if config.get_application_name().is_none() {
        config.application_name("docket");
    }
    config
        .connect_timeout(CONNECT_TIMEOUT)
        .keepalives_idle(Duration::from_secs(10));
    config.tcp_user_timeout(Duration::from_secs(20));
    Ok(config)
}

pub(crate) fn with_options(config: &Config, options: &str) -> Config {
    let mut config = config.clone();
    let given = config.get_options().unwrap_or_default().to_owned();
    config.options(format!("{given} {options}").trim());
    config
}

fn pool(config: &Config, options: &str, dial: &Dial, size: usize, life: &Life) -> Result<Pool> {
    let manager_config = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_connect(with_options(config, options), dial.clone(), manager_config);
    let life = Arc::clone(life);
    let note_life = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        let life = Arc::clone(&life);
        Box::pin(async move {
            let row = client.query_one(LIFE, &[]).await.map_err(HookError::Backend)?;
            // Connections are made side by side; the newest life counts, whoever notes it last.
            life.fetch_max(row.try_get(0).map_err(HookError::Backend)?, Ordering::SeqCst);
            Ok(())
        })
    });
    Pool::builder(manager)
        .post_create(note_life)
        .max_size(size.max(1))
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(WAIT_TIMEOUT),
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(CONNECT_TIMEOUT),
        })
        .build()
        .map_err(|error| Error::Open(format!("the pool cannot be made: {error}")))
}

pub(super) fn no_connection(error: &PoolError) -> Error {
    let transient = match error {
        PoolError::Backend(source) | PoolError::PostCreateHook(HookError::Backend(source)) => {
            is_transient(source) || source.code().is_none()
        }
        PoolError::Timeout(_) => true,
        PoolError::Closed => return Error::Closed,
        _ => false,
    };
    Error::NoConnection {
        reason: chain(error),
        transient,
    }
}

/// An error with all that caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}
