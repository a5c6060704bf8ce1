//! Who may ask (rule A1): roles, callers and API keys as texts.
//!
//! A [`Caller`] is what authentication ends with. It can only be built valid: producers, reviewers and leads act for one
//! tenant and always name it; workers, services and admins act for the deployment and never name one. So whoever holds a
//! caller gets a [`Scope`] or an [`Operator`] from it, never a choice between them.
//!
//! Deliberately absent: which role may do what. That stands with each call.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::content::Digest;
use crate::name::{TenantId, check_name};
use crate::random::Random;
use crate::refusal::{Refusal, Refused};
use crate::scope::{Actor, Operator, Scope};

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Submits items of one tenant and follows them.
    Producer,
    /// Processes jobs, of any tenant.
    Worker,
    /// Decides on reviews of one tenant.
    Reviewer,
    /// Leads the reviewers of one tenant.
    Lead,
    /// Another service that has already authenticated whom it speaks for.
    Service,
    /// Runs the deployment.
    Admin,
}

impl Role {
    /// Every role there is.
    pub const ALL: [Self; 6] = [
        Self::Producer,
        Self::Worker,
        Self::Reviewer,
        Self::Lead,
        Self::Service,
        Self::Admin,
    ];

    /// Its word, part of the wire contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Reviewer => "reviewer",
            Self::Lead => "lead",
            Self::Service => "service",
            Self::Admin => "admin",
        }
    }

    /// The role of this word.
    pub fn parse(text: &str) -> Refused<Self> {
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| {
                Refusal::invalid(
                    "role",
                    "must be one of producer, worker, reviewer, lead, service, admin",
                )
            })
    }

    /// Whether it acts for one tenant, which then has to be named; the others act for the deployment.
    pub const fn needs_tenant(self) -> bool {
        matches!(self, Self::Producer | Self::Reviewer | Self::Lead)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Refusal;

    fn from_str(text: &str) -> Refused<Self> {
        Self::parse(text)
    }
}

/// Somebody who was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    role: Role,
    tenant: Option<TenantId>,
    subject: String,
    actor: Actor,
}

impl Caller {
    /// A caller of this role; refused where the role and the tenant do not go together.
    pub fn new(role: Role, tenant: Option<TenantId>, subject: impl Into<String>) -> Refused<Self> {
        let subject = subject.into();
        check_name("subject", &subject)?;
        match (&tenant, role.needs_tenant()) {
            (None, true) => {
                let problem = format!("a {role} acts for one tenant, which has to be named");
                return Err(Refusal::invalid("tenantId", problem));
            }
            (Some(_), false) => {
                let problem = format!("a {role} acts for the whole deployment: leave the tenant out");
                return Err(Refusal::invalid("tenantId", problem));
            }
            _ => {}
        }
        let actor = Actor::new(format!("{role}:{subject}"))?;
        Ok(Self {
            role,
            tenant,
            subject,
            actor,
        })
    }

    /// What they may do.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Whom they act for; none for the deployment.
    pub const fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Who they are: a reviewerId, a service's name.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Who they are, for the log: `producer:ben`.
    pub fn actor(&self) -> Actor {
        self.actor.clone()
    }

    /// Their tenant's data, for those who act for one.
    pub fn scope(&self) -> Option<Scope> {
        self.tenant.clone().map(|tenant| Scope {
            tenant,
            actor: self.actor(),
        })
    }

    /// The deployment, for those who act for it.
    pub fn operator(&self) -> Option<Operator> {
        self.tenant.is_none().then(|| Operator { actor: self.actor() })
    }
}

/// What every API key that Docket makes begins with.
pub const KEY_MARK: &str = "dk_";
/// The fewest characters of a key that somebody else made.
pub const OWN_KEY_MIN: usize = 32;
/// The most characters of any key.
pub const KEY_MAX: usize = 256;

const SECRET_CHARS: usize = 43; // 256 bits in base 62
const CHECK_CHARS: usize = 6; // 32 bits in base 62
const PREFIX_CHARS: usize = 9; // the mark and six characters: 36 of 256 bits are shown
const DISTINCT_MIN: usize = 12;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// An API key: `dk_`, 256 random bits in base 62, and a checksum by which a mistyped key is told from a wrong one without asking
/// anybody. Its text is a secret, and only [`ApiKey::reveal`] tells it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Draws a key.
    pub fn draw(random: &dyn Random) -> Self {
        let mut bytes = [0_u8; 32];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random.next_u64().to_be_bytes());
        }
        let mut text = String::from(KEY_MARK);
        text.push_str(&base62(&mut bytes, SECRET_CHARS));
        let check = checksum(&text);
        text.push_str(&check);
        Self(text)
    }

    /// Takes what a caller presents as a key, or says why it cannot be one. Docket's own keys have to be whole; keys that an
    /// operator brought have to be strong enough: nothing weaker was ever stored.
    pub fn parse(text: &str) -> Refused<Self> {
        let refuse = |problem: &str| Err(Refusal::invalid("key", problem));
        // The text is a secret: no refusal repeats any of it.
        if text.len() > KEY_MAX {
            return refuse("is longer than any key");
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_+/=~".contains(&b))
        {
            return refuse("may only contain letters, digits and - _ + / = ~");
        }
        if text.starts_with(KEY_MARK) {
            let whole = KEY_MARK.len() + SECRET_CHARS + CHECK_CHARS;
            let (body, check) = text.split_at(text.len().min(whole - CHECK_CHARS));
            if text.len() != whole || checksum(body) != check {
                return refuse("is not whole: it was mistyped or cut off when it was copied");
            }
            return Ok(Self(text.to_owned()));
        }
        let distinct: std::collections::BTreeSet<u8> = text.bytes().collect();
        if text.len() < OWN_KEY_MIN || distinct.len() < DISTINCT_MIN {
            return refuse(
                "is too weak: use at least 32 random characters, as 'openssl rand -hex 32' makes them",
            );
        }
        Ok(Self(text.to_owned()))
    }

    /// The text itself, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its beginning, by which people tell keys apart. Too short to help anybody guess the rest.
    pub fn prefix(&self) -> &str {
        let shown = if self.0.starts_with(KEY_MARK) {
            PREFIX_CHARS
        } else {
            4
        };
        self.0.get(..shown).unwrap_or_default()
    }

    /// What is stored instead of it. A plain hash is enough: nobody can try 2²⁵⁶ keys, so a slow hash would only slow Docket.
    /// Keys are then found by their hash; how long a comparison of hashes takes tells nothing about a key.
    pub fn hash(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}…)", self.prefix())
    }
}

fn checksum(text: &str) -> String {
    let mut bytes = [0_u8; 4];
    bytes.copy_from_slice(&Digest::of(text.as_bytes()).bytes()[..4]);
    base62(&mut bytes, CHECK_CHARS)
}

/// A big-endian number in base 62, with leading zeros.
fn base62(number: &mut [u8], chars: usize) -> String {
    let mut text = vec![b'0'; chars];
    for place in text.iter_mut().rev() {
        let mut rest = 0_usize;
        for byte in number.iter_mut() {
            let value = (rest << 8) | usize::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(0);
            rest = value % 62;
        }
        *place = DIGITS[rest];
    }
    text.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn a_role_is_read_by_its_word_and_by_no_other() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Ok(role));
        }
        for word in ["", "Admin", "root", "admin ", "producer\0"] {
            assert_eq!(
                Role::parse(word).unwrap_err().code(),
                "validation_failed",
                "{word}"
            );
        }
    }

    #[test]
    fn a_caller_has_a_tenant_exactly_where_the_role_needs_one() {
        let acme = || Some(TenantId::new("acme").unwrap());
        for (role, needs) in [
            (Role::Producer, true),
            (Role::Worker, false),
            (Role::Reviewer, true),
            (Role::Lead, true),
            (Role::Service, false),
            (Role::Admin, false),
        ] {
            assert_eq!(
                Caller::new(role, acme(), "ben").is_ok(),
                needs,
                "{role} with a tenant"
            );
            assert_eq!(Caller::new(role, None, "ben").is_ok(), !needs, "{role} without");
            let caller = Caller::new(role, needs.then(acme).flatten(), "ben").unwrap();
            assert_eq!(caller.actor().as_str(), format!("{role}:ben"));
            assert_eq!(
                (caller.scope().is_some(), caller.operator().is_some()),
                (needs, !needs)
            );
        }
        let refusal = Caller::new(Role::Worker, acme(), "ben").unwrap_err();
        assert!(refusal.to_string().contains("leave the tenant out"), "{refusal}");
    }

    #[test]
    fn a_subject_is_a_name() {
        for subject in ["", "a b", "a\nb", &"x".repeat(129)] {
            assert!(Caller::new(Role::Admin, None, subject).is_err(), "{subject}");
        }
    }

    #[test]
    fn a_key_is_long_and_whole_and_never_the_same() {
        let random = SeededRandom::new(5);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let key = ApiKey::draw(&random);
            assert_eq!(key.reveal().len(), 52);
            assert_eq!(ApiKey::parse(key.reveal()), Ok(key.clone()));
            assert!(seen.insert(key.hash()));
            assert!(
                !format!("{key:?}").contains(&key.reveal()[9..]),
                "debugging tells no secret"
            );
        }
    }

    #[test]
    fn a_mistyped_key_is_told_before_anybody_is_asked() {
        let key = ApiKey::draw(&SeededRandom::new(5));
        let text = key.reveal();
        for at in 3..text.len() {
            let mut typed = text.as_bytes().to_vec();
            typed[at] = if typed[at] == b'x' { b'y' } else { b'x' };
            let refusal = ApiKey::parse(std::str::from_utf8(&typed).unwrap()).unwrap_err();
            assert!(refusal.to_string().contains("not whole"), "{at}: {refusal}");
        }
        for bad in [&text[..51], &text[..10], "dk_", &format!("{text}x")] {
            assert!(ApiKey::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_of_ones_own_has_to_be_strong() {
        for (text, good) in [
            (
                "5f2c0e9ab41d7788c3aa01b9e6f0d2445f2c0e9ab41d7788c3aa01b9e6f0d244",
                true,
            ),
            ("Zm9vYmFyYmF6cXV4Y29ycmVjdGhvcnNl", true),
            ("admin", false),
            ("", false),
            (&"a".repeat(64), false),
            (&"0123456789".repeat(5), false),
            ("correct horse battery staple, with spaces", false),
            ("schlüssel-schlüssel-schlüssel-schlüssel", false),
            (&"0123456789abcdef".repeat(17), false),
        ] {
            assert_eq!(ApiKey::parse(text).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn base_62_counts_like_other_bases() {
        for (number, text) in [
            (0_u32, "000000"),
            (61, "00000z"),
            (62, "000010"),
            (u32::MAX, "4gfFC3"),
        ] {
            assert_eq!(base62(&mut number.to_be_bytes(), 6), text);
        }
    }
}
