//! What tests share in which PostgreSQL goes away, or its answers do: servers on a database of their own, and single calls by which
//! it is seen whether they go on.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use docket_core::random::SystemRandom;
use docket_engine::{BlobConfig, Claim, Engine, EngineConfig, Error, PostgresConfig, StoreConfig, Submit};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::load::PIPELINE;
use crate::{Database, World, names};

/// No test takes longer; one that does hangs.
pub async fn within<W: Future<Output = ()>>(seconds: u64, test: W) {
    let over = tokio::time::timeout(Duration::from_secs(seconds), test).await;
    over.expect("the test is over within its time");
}

/// Opens a server on a database, with what `change` makes of its settings.
pub async fn server(database: &Database, change: impl FnOnce(&mut PostgresConfig)) -> Engine {
    let mut postgres = PostgresConfig::new(database.url.clone().unwrap());
    change(&mut postgres);
    let mut config = EngineConfig::new(
        StoreConfig::Postgres(postgres),
        BlobConfig::Folder(database.blob_folder()),
    );
    config.random = Arc::new(SystemRandom);
    Engine::open(config).await.expect("the server opens")
}

/// A connection that has nothing to do with Docket.
pub async fn plain_client(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

/// What is told on a channel from now on.
pub async fn notices(url: &str, channel: &str) -> mpsc::UnboundedReceiver<String> {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("PostgreSQL answers");
    let (tell, told) = mpsc::unbounded_channel();
    let heard = tell.clone();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notice) = message {
                tell.send(notice.payload().to_owned()).ok();
            }
        }
    });
    let listen = client.batch_execute(&format!("listen {channel}")).await;
    listen.expect("PostgreSQL listens");
    // The connection goes with its client, which stays for as long as somebody hears.
    tokio::spawn(async move {
        heard.closed().await;
        drop(client);
    });
    told
}

/// A claim of one job of the load that waits for so long.
pub fn waiting_claim(wait_ms: u64) -> Claim {
    Claim {
        pipeline: names::pipeline(PIPELINE),
        worker: names::worker("waiting"),
        limit: 1,
        lease_ms: Some(60_000),
        wait_ms,
    }
}

/// Submits one item of the load.
pub async fn submit(
    engine: &Engine,
    tenant: &str,
    external_id: &str,
) -> Result<docket_engine::SubmittedItem, Error> {
    let call = Submit {
        collection: names::collection(tenant),
        items: vec![World::item(external_id)],
        idempotency_key: None,
    };
    let mut answer = engine.submit(&World::scope(tenant), call).await?;
    Ok(answer.results.pop().unwrap()?)
}
