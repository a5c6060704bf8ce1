//! Throw-away databases and small worlds for tests; the suites that hold Docket's guarantees are in `tests/`.
//!
//! A test is written once and runs on both databases: see [`on_both!`]. PostgreSQL is the cluster that
//! `scripts/with-postgres` has started, never one that happens to be there.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test kit panics where a test cannot go on"
)]

mod cluster;
mod database;
pub mod desk;
pub mod desk_model;
mod files;
pub mod installed;
pub mod load;
pub mod mail_proxy;
pub mod mail_server;
pub mod model;
pub mod outage;
pub mod outbox;
pub mod outbox_rows;
mod plain;
pub mod plan;
pub mod provider;
pub mod proxy;
pub mod race;
pub mod scripted;
mod world;

pub use cluster::Cluster;
pub use database::Database;
pub use files::files_under;
pub use plain::Plain;
pub use world::{FILE_MAX, World, WorldConfig, names};

/// Runs each test on SQLite and on PostgreSQL. A test takes a [`World`], ends within two minutes, and then comes the
/// doctor, who must find nothing.
#[macro_export]
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($world:ident: &World) $body:block)+) => {
        $($(#[$meta])* async fn $name($world: &$crate::World) $body)+

        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let world = $crate::World::new($crate::Database::sqlite()).await;
                $crate::outage::within(120, super::$name(&world)).await;
                world.assert_healthy().await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let world = $crate::World::new($crate::Database::postgres().await).await;
                $crate::outage::within(120, super::$name(&world)).await;
                world.assert_healthy().await;
            })+
        }
    };
}
