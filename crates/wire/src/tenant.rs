//! Tenants.

use docket_core::tenant as core;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number, or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadLimit {
    /// As many as one likes.
    Unlimited,
    /// At most this many in a rolling hour.
    PerHour(u32),
}

impl From<core::UploadLimit> for UploadLimit {
    fn from(limit: core::UploadLimit) -> Self {
        match limit {
            core::UploadLimit::Unlimited => Self::Unlimited,
            core::UploadLimit::PerHour(n) => Self::PerHour(n),
        }
    }
}

impl From<UploadLimit> for core::UploadLimit {
    fn from(limit: UploadLimit) -> Self {
        match limit {
            UploadLimit::Unlimited => Self::Unlimited,
            UploadLimit::PerHour(n) => Self::PerHour(n),
        }
    }
}

impl Serialize for UploadLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unlimited => serializer.serialize_str("unlimited"),
            Self::PerHour(n) => serializer.serialize_u32(*n),
        }
    }
}

impl<'de> Deserialize<'de> for UploadLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = UploadLimit;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number from 0 on, or \"unlimited\"")
            }

            fn visit_u64<E: de::Error>(self, n: u64) -> Result<UploadLimit, E> {
                let number = u32::try_from(n).ok().filter(|n| *n <= UPLOADS_MAX);
                number
                    .map(UploadLimit::PerHour)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(n), &self))
            }

            fn visit_f64<E: de::Error>(self, n: f64) -> Result<UploadLimit, E> {
                let whole = crate::whole::exact(n).and_then(|n| u64::try_from(n).ok());
                let whole = whole.ok_or_else(|| E::invalid_value(de::Unexpected::Float(n), &self))?;
                self.visit_u64(whole)
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<UploadLimit, E> {
                match word {
                    "unlimited" => Ok(UploadLimit::Unlimited),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// The largest number of submissions an hour that can be set; more is `unlimited`.
pub const UPLOADS_MAX: u32 = 2_147_483_647;

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for UploadLimit {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(UPLOADS_MAX));
        OneOfBuilder::new()
            .item(number)
            .item(crate::schema::Unlimited::schema())
            .description(Some("A number, or `unlimited`."))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for UploadLimit {
    fn name() -> std::borrow::Cow<'static, str> {
        std::borrow::Cow::Borrowed("UploadLimit")
    }
}

/// `PUT /api/v1/tenants/{tenantId}`: what is left out is the tier's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantPut {
    /// The name of its tier: `free`, `starter`, `pro`, `enterprise`, or one of the deployment's own.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub tier: String,
    /// Its own number of submissions in a rolling hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploads_per_hour: Option<UploadLimit>,
    /// Its own number of jobs of a lane that run at once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::whole::whole_or_none"
    )]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100_000))]
    pub concurrent_jobs: Option<u32>,
}

/// A tenant with the limits that apply to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub id: String,
    /// The name of its tier.
    pub tier: String,
    /// Submissions in a rolling hour, its own or its tier's.
    pub uploads_per_hour: UploadLimit,
    /// Jobs of a lane that run at once, its own or its tier's.
    pub concurrent_jobs: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_the_word() {
        for (text, limit) in [
            ("10", UploadLimit::PerHour(10)),
            ("0", UploadLimit::PerHour(0)),
            ("\"unlimited\"", UploadLimit::Unlimited),
        ] {
            assert_eq!(serde_json::from_str::<UploadLimit>(text).unwrap(), limit);
            assert_eq!(serde_json::to_string(&limit).unwrap(), text);
        }
        for text in ["-1", "1.5", "\"none\"", "null", "4294967295", "{}"] {
            assert!(serde_json::from_str::<UploadLimit>(text).is_err(), "{text}");
        }
    }
}
