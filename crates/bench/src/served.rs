//! A server over a site's engine, in this process, and clients of it.

use anyhow::Result;
use docket_access::{Access, AccessConfig};
use docket_client::Client;
use docket_core::access::Role;
use docket_core::name::TenantId;
use docket_core::scope::Operator;
use docket_engine::NewKey;
use docket_server::{AppState, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::site::Site;

pub(crate) struct Served {
    url: String,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(site: &Site) -> Result<Self> {
        let access = Access::new(site.engine.clone(), AccessConfig::default())?;
        let state = AppState::new(site.engine.clone(), access, ServerConfig::default());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let routes = docket_server::router(state.clone());
        let server = tokio::spawn(async move {
            docket_server::serve(listener, state, routes, async { drop(stopped.await) }).await;
        });
        Ok(Self { url, stop, server })
    }

    /// A client with a key of its own.
    pub(crate) async fn client(
        &self,
        site: &Site,
        role: Role,
        tenant: Option<TenantId>,
        subject: &str,
    ) -> Result<Client> {
        let key = NewKey {
            role,
            tenant,
            subject: subject.to_owned(),
        };
        let key = site.engine.key_create(&Operator::system(), key).await?.key;
        Ok(Client::new(&self.url, Some(key.reveal().to_owned()))?)
    }

    /// Ends the server; its clients have to be gone.
    pub(crate) async fn stop(self) -> Result<()> {
        drop(self.stop);
        Ok(self.server.await?)
    }
}
