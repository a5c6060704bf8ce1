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
/// For all: no compiling of plans, no transaction that a dead network leaves open for long, and no session whose Docket has vanished.
const OPTIONS: &str = "-c jit=off -c idle_in_transaction_session_timeout=60s \
     -c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3";
/// For each of the servers that a URL names.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection on which nothing comes is asked for a sign of life, and given up when none comes either.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVES_RETRIES: u32 = 3;
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Which life the server is in: changes whenever it recovers from a crash, and is open to everybody. (A server that crashed has
/// lost its statistics, and notes when it began new ones.) And whether it only follows another server.
const LIFE: &str = "select coalesce((extract(epoch from stats_reset) * 1000000)::bigint, 0), pg_is_in_recovery() \
     from pg_stat_bgwriter";

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
        .keepalives_idle(KEEPALIVES_IDLE)
        .keepalives_interval(KEEPALIVES_INTERVAL)
        .keepalives_retries(KEEPALIVES_RETRIES);
    config.tcp_user_timeout(Duration::from_secs(20));
    Ok(config)
}

pub(crate) fn with_options(config: &Config, options: &str) -> Config {
    let mut config = config.clone();
    let given = config.get_options().unwrap_or_default().to_owned();
    config.options(format!("{given} {options}").trim());
    config
}

/// How long making a connection may take: one server that does not answer must not use up the time of those named after it.
pub(super) fn connect_limit(config: &Config) -> Duration {
    let servers = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX);
    CONNECT_TIMEOUT.saturating_mul(servers.max(1))
}

/// What a server tells of itself.
pub(super) struct Server {
    pub(super) life: i64,
    pub(super) is_standby: bool,
}

pub(super) async fn ask_life(client: &tokio_postgres::Client) -> Result<Server, tokio_postgres::Error> {
    let row = client.query_one(LIFE, &[]).await?;
    Ok(Server {
        life: row.try_get(0)?,
        is_standby: row.try_get(1)?,
    })
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
            let found = ask_life(client).await.map_err(HookError::Backend)?;
            // What a standby tells is old. No server becomes one while somebody is connected to it: to look once is enough.
            if found.is_standby {
                return Err(HookError::message(
                    "the server is a standby, which only reads until it is promoted",
                ));
            }
            // Connections are made side by side; the newest life counts, whoever notes it last.
            life.fetch_max(found.life, Ordering::SeqCst);
            Ok(())
        })
    });
    Pool::builder(manager)
        .post_create(note_life)
        .max_size(size.max(1))
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(WAIT_TIMEOUT),
            create: Some(connect_limit(config)),
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
        // A standby today is what writes tomorrow.
        PoolError::Timeout(_) | PoolError::PostCreateHook(HookError::Message(_)) => true,
        PoolError::Closed => return Error::Closed,
        _ => false,
    };
    Error::no_connection(error, transient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_asked_for_signs_of_life_until_it_is_given_up() {
        let config = parse("postgres://docket@db/docket").unwrap();
        assert!(config.get_keepalives());
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(10));
        assert_eq!(config.get_keepalives_interval(), Some(Duration::from_secs(5)));
        assert_eq!(config.get_keepalives_retries(), Some(3));
    }

    #[test]
    fn each_server_that_is_named_has_its_time() {
        for (hosts, servers) in [("a", 1), ("a,b", 2), ("a,b:5433,c", 3)] {
            let config = parse(&format!("postgres://docket@{hosts}/docket")).unwrap();
            assert_eq!(connect_limit(&config), CONNECT_TIMEOUT * servers, "{hosts}");
        }
    }
}
