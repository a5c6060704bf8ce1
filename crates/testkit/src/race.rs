//! What races stand on: one world with one server or several, and calls that are made at the same moment.
//!
//! A race is written once and run by [`everywhere!`](crate::everywhere) on SQLite, on PostgreSQL with one server that has 24
//! connections for the tuned operations, and on PostgreSQL with sixteen servers: one server lets its short statements take turns, so
//! only several of them have their claims, completions and submissions really side by side.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use docket_engine::Engine;
use tokio::sync::Barrier;

use crate::{Database, Plain, World, WorldConfig};

/// A world and its servers.
#[derive(Debug)]
pub struct Scene {
    /// The world; its engine is the first server.
    pub world: World,
    engines: Vec<Engine>,
    /// The world's database without Docket.
    pub plain: Plain,
}

impl Scene {
    async fn new(database: Database, servers: usize, real_time: bool) -> Self {
        let settings = WorldConfig {
            runners: if servers == 1 { 16 } else { 2 },
            hot_connections: if servers == 1 { 24 } else { 2 },
            real_time,
            ..WorldConfig::default()
        };
        let world = World::with(database, &settings).await;
        let mut engines = vec![world.engine.clone()];
        for _ in 1..servers {
            engines.push(world.another_engine(&settings).await);
        }
        Self {
            plain: Plain::of(&world.database),
            world,
            engines,
        }
    }

    /// One of the servers.
    pub fn engine(&self, n: usize) -> &Engine {
        &self.engines[n % self.engines.len()]
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.engines.len()
    }

    /// How many connections are within a transaction at this moment. SQLite has one writer.
    pub async fn transactions_at_once(&self) -> usize {
        match &self.plain {
            Plain::Sqlite(_) => 1,
            Plain::Postgres(_) => {
                let open = "select count(*) from pg_stat_activity
                            where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()";
                usize::try_from(self.plain.number(open).await).unwrap_or(0)
            }
        }
    }
}

/// Runs each race on SQLite, on PostgreSQL, and on PostgreSQL with sixteen servers. A race takes an [`Arc`] of a [`Scene`], and ends
/// with the doctor, who must find nothing.
#[macro_export]
macro_rules! everywhere {
    ($($(#[$meta:meta])* $name:ident, real_time = $real_time:literal;)+) => {
        mod sqlite {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::race::play($crate::Database::sqlite(), 1, $real_time, super::$name).await;
            })+
        }

        mod postgres {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::race::play($crate::Database::postgres().await, 1, $real_time, super::$name).await;
            })+
        }

        mod sixteen_servers {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::race::play($crate::Database::postgres().await, 16, $real_time, super::$name).await;
            })+
        }
    };
}

/// Sets the scene, runs a race on it and has the doctor look at what is left.
pub async fn play<F, W>(database: Database, servers: usize, real_time: bool, test: F)
where
    F: FnOnce(Arc<Scene>) -> W,
    W: Future<Output = ()>,
{
    let played = async {
        let scene = Arc::new(Scene::new(database, servers, real_time).await);
        test(Arc::clone(&scene)).await;
        scene.world.assert_healthy().await;
    };
    let over = tokio::time::timeout(Duration::from_secs(90), played).await;
    over.expect("the race is over within its time");
}

/// A call that is to be made at the same moment as others.
pub type Call<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs these at the same moment and gives their answers in order.
pub async fn at_once<T, W>(calls: Vec<W>) -> Vec<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(calls.len()));
    let tasks: Vec<_> = calls
        .into_iter()
        .map(|call| {
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                barrier.wait().await;
                call.await
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(task.await.expect("a task ends well"));
    }
    answers
}
