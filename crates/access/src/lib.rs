//! Who asks (rule A1): what a caller presents becomes a [`Caller`], or is [`Denied`].
//!
//! An API key is looked up by its hash; a JWT is checked against the one key, or key set, that the configuration names. What was
//! good is remembered for [`AccessConfig::remember_ms`]: a revoked key is refused at once by the server that revoked it, and by
//! the others within that time. Addresses from which too many attempts failed are slowed down; a credential that was good
//! before is listened to all the same.
//!
//! Deliberately absent: HTTP, and which role may do what.

mod jwks;
mod jwt;
mod known;
mod throttle;

use std::net::IpAddr;
use std::sync::Arc;

use docket_core::Timestamp;
use docket_core::access::{ApiKey, Caller};
use docket_core::content::Digest;
use docket_core::name::TenantId;
use docket_engine::Engine;

use crate::jwt::Jwt;
pub use crate::jwt::{JwtConfig, JwtKey};
use crate::known::{Found, Known};
use crate::throttle::Throttle;

/// The longest credential that is looked at.
pub const CREDENTIAL_MAX: usize = 8 * 1024;

/// How callers are told.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// Which JWTs are taken; none for none.
    pub jwt: Option<JwtConfig>,
    /// How long a good credential is not checked again.
    pub remember_ms: i64,
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            jwt: None,
            remember_ms: 3_000,
        }
    }
}

/// A configuration that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Why somebody was not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing was presented.
    #[error("an API key or a JWT is needed: send 'Authorization: Bearer …'")]
    Missing,
    /// What was presented is not good. The reason helps those who configure and tells nothing secret.
    #[error("the credential was refused: {0}")]
    Invalid(String),
    /// Too many attempts from this address failed.
    #[error("too many failed attempts from this address: try again in {retry_after_s} seconds")]
    Slowed {
        /// When the next attempt is looked at.
        retry_after_s: u64,
    },
    /// It cannot be told at present: the database or the provider of keys is away.
    #[error("credentials cannot be checked at present")]
    Unavailable,
}

impl Denied {
    /// In one word, for the metrics.
    const fn label(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Invalid(_) => "invalid",
            Self::Slowed { .. } => "slowed",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why a credential was not found good, and whether it is held against the address.
pub(crate) struct Fault {
    denied: Denied,
    guess: bool,
}

impl Fault {
    /// It is not good, and nothing shows that it ever was.
    pub(crate) fn guess(reason: impl Into<String>) -> Self {
        Self {
            denied: Denied::Invalid(reason.into()),
            guess: true,
        }
    }

    /// It is not good, but was made by somebody who holds the key: a token that has expired, a role that does not exist.
    pub(crate) fn honest(reason: impl Into<String>) -> Self {
        Self {
            denied: Denied::Invalid(reason.into()),
            guess: false,
        }
    }

    /// Nobody can tell.
    pub(crate) const fn unavailable() -> Self {
        Self {
            denied: Denied::Unavailable,
            guess: false,
        }
    }
}

/// A caller, and until when what was presented may be taken for good without looking.
pub(crate) struct Good {
    caller: Caller,
    until: Timestamp,
}

struct Inner {
    engine: Engine,
    jwt: Option<Jwt>,
    remember_ms: i64,
    known: Known,
    throttle: Throttle,
}

/// Tells who asks; cheap to clone.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Access to this engine, by this configuration.
    pub fn new(engine: Engine, config: AccessConfig) -> Result<Self, ConfigError> {
        let jwt = config.jwt.map(Jwt::new).transpose()?;
        Ok(Self(Arc::new(Inner {
            engine,
            jwt,
            remember_ms: config.remember_ms,
            known: Known::default(),
            throttle: Throttle::default(),
        })))
    }

    /// Who presents this credential: what follows `Bearer ` in the header.
    pub async fn authenticate(&self, bearer: Option<&str>, from: IpAddr) -> Result<Caller, Denied> {
        let told = self.tell(bearer, from).await;
        if let Err(denied) = &told {
            metrics::counter!("docket_access_denied_total", "reason" => denied.label()).increment(1);
        }
        told
    }

    async fn tell(&self, bearer: Option<&str>, from: IpAddr) -> Result<Caller, Denied> {
        let inner = &self.0;
        let Some(credential) = bearer.filter(|credential| !credential.is_empty()) else {
            return Err(Denied::Missing);
        };
        let now = inner.engine.now();
        if credential.len() > CREDENTIAL_MAX {
            inner.throttle.failed(from, now);
            return Err(Denied::Invalid(format!(
                "it is longer than {CREDENTIAL_MAX} bytes"
            )));
        }
        // Read before anything is looked up: what is learned after a revocation is never remembered as from before it.
        let revoked = inner.engine.keys_revoked();
        let name = Digest::of(credential.as_bytes());
        let found = inner.known.find(name, revoked, now);
        match found {
            Found::Good(caller) => return Ok(caller),
            Found::Before => {}
            Found::Nothing => {
                if let Some(retry_after_s) = inner.throttle.slowed_s(from, now) {
                    return Err(Denied::Slowed { retry_after_s });
                }
            }
        }
        match inner.check(credential, now).await {
            Ok(good) => {
                inner
                    .known
                    .remember(name, &good.caller, revoked, (now, good.until));
                Ok(good.caller)
            }
            Err(fault) => {
                if fault.denied != Denied::Unavailable {
                    inner.known.forget(name);
                }
                if fault.guess {
                    inner.throttle.failed(from, now);
                }
                Err(fault.denied)
            }
        }
    }
}

impl Inner {
    async fn check(&self, credential: &str, now: Timestamp) -> Result<Good, Fault> {
        let until = now.plus_ms(self.remember_ms);
        // Three parts between dots are a JWT; no key contains a dot.
        if credential.contains('.') {
            let jwt = self
                .jwt
                .as_ref()
                .ok_or_else(|| Fault::guess("JWTs are not configured here; use an API key"))?;
            let mut good = jwt.check(credential, now).await?;
            good.until = good.until.min(until);
            return Ok(good);
        }
        let secret = ApiKey::parse(credential).map_err(|refusal| Fault::guess(refusal.to_string()))?;
        let found = self.engine.key_find(&secret).await.map_err(|error| {
            tracing::error!(%error, "a key could not be looked up");
            Fault::unavailable()
        })?;
        let key = found.ok_or_else(|| Fault::guess("there is no such key"))?;
        if key.revoked_at.is_some() {
            return Err(Fault::guess("the key was revoked"));
        }
        let tenant = key.tenant_id.map(TenantId::new).transpose();
        let caller = tenant.and_then(|tenant| Caller::new(key.role, tenant, key.subject));
        let caller = caller.map_err(|refusal| {
            tracing::error!(key = %key.id, %refusal, "a stored key makes no caller");
            Fault::unavailable()
        })?;
        Ok(Good { caller, until })
    }
}

/// The credential of an `Authorization` header, where it is one of a bearer.
pub fn bearer(header: &str) -> Option<&str> {
    let (scheme, credential) = header.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(credential.trim_matches(' '))
        .filter(|credential| !credential.is_empty())
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn a_bearers_header_is_read_and_no_other() {
        for (header, credential) in [
            ("Bearer dk_1", Some("dk_1")),
            ("bearer  dk_1 ", Some("dk_1")),
            ("Basic dk_1", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("", None),
            ("dk_1", None),
        ] {
            assert_eq!(bearer(header), credential, "{header}");
        }
    }
}
