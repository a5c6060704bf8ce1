//! JWTs: a signature by the configured key, an expiry, and the claims `sub`, `role` and `tenant`.
//!
//! The algorithm follows from the key and never from the token: a secret is HS256, an RSA key RS256, a P-256 key ES256. A
//! token that names another, or none, is refused before anything is computed; so a public key can never be used as a secret.
//! Times are compared with the engine's clock, `exp` is required, and issuer and audience are checked where they are configured.

use docket_core::Timestamp;
use docket_core::access::{Caller, Role};
use docket_core::name::TenantId;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::Deserialize;
use serde_json::Value;

use crate::jwks::Jwks;
use crate::{ConfigError, Fault, Good};

/// By how much clocks may differ.
const LEEWAY_S: f64 = 10.0;
/// The fewest bytes of a secret: as many as HS256 puts out (RFC 7518, 3.2).
const SECRET_MIN: usize = 32;

/// Which JWTs are taken.
#[derive(Clone, Debug)]
pub struct JwtConfig {
    /// By what their signature is checked.
    pub key: JwtKey,
    /// The `iss` that they must have; none for any.
    pub issuer: Option<String>,
    /// What their `aud` must contain; none for any.
    pub audience: Option<String>,
}

/// By what a signature is checked.
#[derive(Clone)]
pub enum JwtKey {
    /// HS256: whoever knows the secret makes tokens.
    Secret(String),
    /// RS256 or ES256, as the key is: a public key in PEM.
    PublicPem(Vec<u8>),
    /// RS256 or ES256, as the key is: a key set at this address, which is asked again when keys change.
    JwksUrl(String),
}

impl std::fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("Secret(…)"),
            Self::PublicPem(_) => f.write_str("PublicPem(…)"),
            Self::JwksUrl(url) => f.debug_tuple("JwksUrl").field(url).finish(),
        }
    }
}

/// A key and the one algorithm it is for.
#[derive(Clone, Debug)]
pub(crate) struct PinnedKey {
    pub(crate) algorithm: Algorithm,
    pub(crate) key: DecodingKey,
}

enum Keys {
    One(PinnedKey),
    Set(Jwks),
}

pub(crate) struct Jwt {
    keys: Keys,
    issuer: Option<String>,
    audience: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    exp: Option<Value>,
    nbf: Option<Value>,
    iss: Option<Value>,
    aud: Option<Value>,
    sub: Option<String>,
    role: Option<String>,
    tenant: Option<String>,
}

impl Jwt {
    pub(crate) fn new(config: JwtConfig) -> Result<Self, ConfigError> {
        let keys = match config.key {
            JwtKey::Secret(secret) => Keys::One(secret_key(&secret)?),
            JwtKey::PublicPem(pem) => Keys::One(public_key(&pem)?),
            JwtKey::JwksUrl(url) => Keys::Set(Jwks::new(&url)?),
        };
        Ok(Self {
            keys,
            issuer: config.issuer,
            audience: config.audience,
        })
    }

    pub(crate) async fn check(&self, token: &str, now: Timestamp) -> Result<Good, Fault> {
        let header = jsonwebtoken::decode_header(token)
            .map_err(|_| Fault::guess("it is no JWT with an algorithm that is taken here"))?;
        if header.crit.is_some() {
            return Err(Fault::guess(
                "its header has 'crit', of which nothing is understood here",
            ));
        }
        let key = match &self.keys {
            Keys::One(key) => key.clone(),
            Keys::Set(jwks) => jwks.key(header.kid.as_deref(), now).await?,
        };
        let claims = verify(token, &header, &key)?;
        self.caller(claims, now)
    }

    /// From here on the token is known to be made by somebody who holds the key.
    fn caller(&self, claims: Claims, now: Timestamp) -> Result<Good, Fault> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "seconds, to which a JWT's times are exact"
        )]
        let now_s = now.ms() as f64 / 1000.0;
        let exp = seconds("exp", claims.exp.as_ref())?.ok_or_else(|| Fault::honest("it has no 'exp'"))?;
        if exp + LEEWAY_S <= now_s {
            return Err(Fault::honest("it has expired"));
        }
        if seconds("nbf", claims.nbf.as_ref())?.is_some_and(|nbf| nbf - LEEWAY_S > now_s) {
            return Err(Fault::honest("it is not valid yet"));
        }
        if let Some(issuer) = &self.issuer
            && claims.iss.as_ref().and_then(Value::as_str) != Some(issuer)
        {
            return Err(Fault::honest("its 'iss' is not the configured issuer"));
        }
        if let Some(audience) = &self.audience
            && !names(claims.aud.as_ref(), audience)
        {
            return Err(Fault::honest("its 'aud' does not name the configured audience"));
        }
        let honest = |refusal: docket_core::Refusal| Fault::honest(refusal.to_string());
        let role = claims.role.ok_or_else(|| Fault::honest("it has no 'role'"))?;
        let subject = claims.sub.ok_or_else(|| Fault::honest("it has no 'sub'"))?;
        let tenant = claims.tenant.map(TenantId::new).transpose().map_err(honest)?;
        let role = Role::parse(&role).map_err(honest)?;
        let caller = Caller::new(role, tenant, subject).map_err(honest)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float too large becomes the last moment"
        )]
        let until = Timestamp::from_ms(((exp + LEEWAY_S) * 1000.0) as i64);
        Ok(Good { caller, until })
    }
}

fn verify(token: &str, header: &Header, pinned: &PinnedKey) -> Result<Claims, Fault> {
    if header.alg != pinned.algorithm {
        let wanted = pinned.algorithm;
        return Err(Fault::guess(format!("it has to be signed with {wanted:?}")));
    }
    // The library checks the form and the signature; what the claims must be stands in `caller`, by the engine's clock.
    let mut validation = Validation::new(pinned.algorithm);
    validation.required_spec_claims.clear();
    (
        validation.validate_exp,
        validation.validate_nbf,
        validation.validate_aud,
    ) = (false, false, false);
    let data = jsonwebtoken::decode::<Claims>(token, &pinned.key, &validation);
    data.map(|data| data.claims).map_err(|error| {
        use jsonwebtoken::errors::ErrorKind;
        Fault::guess(match error.kind() {
            ErrorKind::InvalidSignature => "its signature is not by the configured key",
            _ => "it is malformed",
        })
    })
}

fn seconds(claim: &str, value: Option<&Value>) -> Result<Option<f64>, Fault> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|seconds| seconds.is_finite()) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(Fault::honest(format!("its '{claim}' is no number of seconds"))),
        },
    }
}

fn names(aud: Option<&Value>, audience: &str) -> bool {
    match aud {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(many)) => many.iter().any(|one| one == audience),
        _ => false,
    }
}

fn secret_key(secret: &str) -> Result<PinnedKey, ConfigError> {
    if secret.len() < SECRET_MIN {
        let text = format!(
            "auth.jwt.secret has {} bytes; HS256 needs at least {SECRET_MIN}, as 'openssl rand -hex 32' makes them",
            secret.len()
        );
        return Err(ConfigError(text));
    }
    if secret.contains("-----BEGIN") {
        let text = "auth.jwt.secret is a PEM file's text: a public key belongs into auth.jwt.public_key_file";
        return Err(ConfigError(text.to_owned()));
    }
    Ok(PinnedKey {
        algorithm: Algorithm::HS256,
        key: DecodingKey::from_secret(secret.as_bytes()),
    })
}

fn public_key(pem: &[u8]) -> Result<PinnedKey, ConfigError> {
    let refuse = |text: &str| Err(ConfigError(format!("auth.jwt.public_key_file: {text}")));
    if String::from_utf8_lossy(pem).contains("PRIVATE KEY") {
        return refuse("holds a private key; give Docket the public one and keep the other away from it");
    }
    if let Ok(key) = DecodingKey::from_ec_pem(pem) {
        // An uncompressed point of P-256, which is what ES256 is about.
        if key.try_get_as_bytes().map_or(0, <[u8]>::len) != 65 {
            return refuse("an elliptic-curve key has to be of P-256 (ES256)");
        }
        let algorithm = Algorithm::ES256;
        return Ok(PinnedKey { algorithm, key });
    }
    match DecodingKey::from_rsa_pem(pem) {
        Ok(key) => Ok(PinnedKey {
            algorithm: Algorithm::RS256,
            key,
        }),
        Err(_) => refuse("needs a PEM public key, RSA (RS256) or P-256 (ES256)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_a_safe_key_is_refused_at_the_start() {
        for (key, word) in [
            (JwtKey::Secret("short".to_owned()), "at least 32"),
            (
                JwtKey::Secret("-----BEGIN PUBLIC KEY-----\nMFkw…\n".repeat(2)),
                "public_key_file",
            ),
            (
                JwtKey::PublicPem(b"-----BEGIN PRIVATE KEY-----".to_vec()),
                "private key",
            ),
            (JwtKey::PublicPem(b"hello".to_vec()), "needs a PEM"),
            (JwtKey::JwksUrl("http://example.com/jwks".to_owned()), "https"),
            (JwtKey::JwksUrl("not a url".to_owned()), "jwks_url"),
        ] {
            let config = JwtConfig {
                key,
                issuer: None,
                audience: None,
            };
            let error = Jwt::new(config).err().expect("it is refused").to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn an_audience_is_one_or_one_of_many() {
        for (aud, good) in [
            (json!("docket"), true),
            (json!(["a", "docket"]), true),
            (json!("docket2"), false),
            (json!(["a"]), false),
            (json!([]), false),
            (json!({ "docket": 1 }), false),
            (json!(null), false),
        ] {
            assert_eq!(names(Some(&aud), "docket"), good, "{aud}");
        }
        assert!(!names(None, "docket"));
    }
}
