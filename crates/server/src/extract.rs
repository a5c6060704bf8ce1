//! Reading requests. Whatever cannot be read is said with its place: a property's path, a parameter's or a header's name.

use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse, Response};
use docket_core::id::{DeliveryId, ItemId, JobId, KeyId, NotificationId, PauseId, ReviewId};
use docket_core::name::{CollectionId, NAME_MAX, PipelineName, ReviewerId, StepName, TenantId, check_text};
use docket_core::{Refusal, Refused};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::body::read_json;
use crate::error::{ApiError, ApiResult};
use crate::state::AppState;

/// A header that may be there once.
pub fn one_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> ApiResult<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let name = || name.as_str().to_owned();
    if values.next().is_some() {
        return Err(ApiError::malformed(name(), "is there twice"));
    }
    let text = value.to_str();
    text.map(Some)
        .map_err(|_| ApiError::malformed(name(), "may only contain visible ASCII characters"))
}

/// A JSON body, and a JSON answer.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                ApiError::Internal.into_response()
            }
        }
    }
}

/// A JSON body of a call that carries content, and so may be large.
#[derive(Clone, Copy, Debug)]
pub struct BatchJson<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<AppState> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> ApiResult<Self> {
        read_json(request, state, state.config().json_max).await.map(Self)
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<AppState> for BatchJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> ApiResult<Self> {
        read_json(request, state, state.config().batch_max)
            .await
            .map(Self)
    }
}

/// Where a problem is. A member that is missing, or there twice, is told by its name alone: it has no place of its own.
pub(crate) fn member_path(path: &str, problem: &str, whole: &str) -> String {
    let named = ["missing field `", "duplicate field `"]
        .into_iter()
        .find_map(|begin| problem.strip_prefix(begin)?.split_once('`'))
        .map(|(name, _)| name);
    match (path, named) {
        (".", None) => whole.to_owned(),
        (".", Some(name)) => name.to_owned(),
        (path, None) => path.to_owned(),
        (path, Some(name)) if path.rsplit('.').next() == Some(name) => path.to_owned(),
        (path, Some(name)) => format!("{path}.{name}"),
    }
}

/// The parameters after `?`.
#[derive(Clone, Copy, Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> ApiResult<Self> {
        let text = parts.uri.query().unwrap_or_default();
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(text)
            .map_err(|error| ApiError::malformed("query", error.to_string()))?;
        if let Some((name, _)) = pairs
            .iter()
            .find(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(ApiError::malformed(
                name.replace('\0', ""),
                "must not contain the NUL character",
            ));
        }
        let reader = serde::de::value::MapDeserializer::new(
            pairs
                .iter()
                .map(|(name, value)| (name.as_str(), QueryValue(value))),
        );
        match serde_path_to_error::deserialize(reader) {
            Ok(query) => Ok(Self(query)),
            Err(error) => {
                let path = error.path().to_string();
                let error: serde::de::value::Error = error.into_inner();
                let problem = error.to_string();
                Err(ApiError::malformed(
                    member_path(&path, &problem, "query"),
                    problem,
                ))
            }
        }
    }
}

/// A parameter's value: text that is read as whatever is wanted.
#[derive(Clone, Copy)]
struct QueryValue<'a>(&'a str);

macro_rules! read_as {
    ($($method:ident: $type:ty => $visit:ident, $what:literal;)+) => {
        $(fn $method<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            let value: $type = self.0.parse().map_err(|_| {
                serde::de::Error::custom(concat!("must be ", $what))
            })?;
            visitor.$visit(value)
        })+
    };
}

impl<'de> serde::Deserializer<'de> for QueryValue<'de> {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_enum(serde::de::value::BorrowedStrDeserializer::new(self.0))
    }

    fn deserialize_newtype_struct<V: serde::de::Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    read_as! {
        deserialize_u64: u64 => visit_u64, "a whole number from 0 on";
        deserialize_u32: u32 => visit_u32, "a whole number from 0 on";
        deserialize_i64: i64 => visit_i64, "a whole number";
        deserialize_f64: f64 => visit_f64, "a number";
        deserialize_bool: bool => visit_bool, "true or false";
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

impl<'de> serde::de::IntoDeserializer<'de, serde::de::value::Error> for QueryValue<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// One parameter of a path.
pub trait FromParam: Sized + Send {
    /// Reads it; `name` is the parameter's.
    fn from_param(name: &str, text: &str) -> Refused<Self>;
}

/// What is no UUID is a wrong request; a UUID that names nothing is not found.
fn id<T: std::str::FromStr<Err = Refusal>>(name: &str, text: &str) -> Refused<T> {
    Uuid::try_parse(text).map_err(|_| Refusal::invalid(name, "must be a UUID"))?;
    text.parse()
}

fn named<T>(name: &str, made: Refused<T>) -> Refused<T> {
    made.map_err(|refusal| match refusal {
        Refusal::Invalid { problem, .. } => Refusal::invalid(name, problem),
        other => other,
    })
}

macro_rules! from_param {
    ($($id:ty)+; $($name:ty)+) => {
        $(impl FromParam for $id {
            fn from_param(name: &str, text: &str) -> Refused<Self> {
                id(name, text)
            }
        })+
        $(impl FromParam for $name {
            fn from_param(name: &str, text: &str) -> Refused<Self> {
                named(name, Self::new(text))
            }
        })+
    };
}

from_param!(DeliveryId ItemId JobId KeyId NotificationId PauseId ReviewId; CollectionId PipelineName ReviewerId StepName TenantId);

/// A field's name.
#[derive(Clone, Debug)]
pub struct FieldName(pub String);

impl FromParam for FieldName {
    fn from_param(name: &str, text: &str) -> Refused<Self> {
        check_text(name, text, NAME_MAX)?;
        Ok(Self(text.to_owned()))
    }
}

/// The one parameter of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathParam<T>(pub T);

/// The two parameters of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathParams<A, B>(pub A, pub B);

async fn raw_params(parts: &mut Parts, state: &AppState) -> ApiResult<RawPathParams> {
    RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| ApiError::malformed("path", "must be UTF-8"))
}

fn next<'a, T: FromParam>(params: &mut impl Iterator<Item = (&'a str, &'a str)>) -> ApiResult<T> {
    let (name, text) = params.next().ok_or(ApiError::Internal)?;
    Ok(T::from_param(name, text)?)
}

impl<T: FromParam> FromRequestParts<AppState> for PathParam<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        let params = raw_params(parts, state).await?;
        Ok(Self(next(&mut params.iter())?))
    }
}

impl<A: FromParam, B: FromParam> FromRequestParts<AppState> for PathParams<A, B> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        let params = raw_params(parts, state).await?;
        let mut params = params.iter();
        Ok(Self(next(&mut params)?, next(&mut params)?))
    }
}
