//! Values as both databases understand them: what goes into a statement and what comes out of a row.
//!
//! The common subset is small on purpose: integers, reals, text, bytes, UUIDs, truth values, and arrays for the
//! statements that take many entries at once (SQLite gets those as JSON text, for `json_each`).

use bytes::BytesMut;
use docket_core::Timestamp;
use docket_core::content::Digest;
use docket_core::id::{
    CollectionKey, DeliveryId, ItemId, KeyId, LaneKey, NotificationId, PauseId, PipelineKey, ReviewId, Seq,
    UploadId,
};
use rusqlite::types::{ToSqlOutput, Value as SqliteValue, ValueRef};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use uuid::Uuid;

use crate::error::{Error, Result};

type BoxError = Box<dyn std::error::Error + Sync + Send>;

/// One value.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    Uuid(Uuid),
    Bools(Vec<bool>),
    Ints(Vec<Option<i64>>),
    Reals(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
    Blobs(Vec<Option<Vec<u8>>>),
    Uuids(Vec<Uuid>),
}

macro_rules! value_from {
    ($($from:ty => |$v:ident| $make:expr;)+) => {
        $(impl From<$from> for Value {
            fn from($v: $from) -> Self {
                $make
            }
        })+
    };
}

value_from! {
    bool => |v| Self::Bool(v);
    i64 => |v| Self::Int(v);
    u32 => |v| Self::Int(i64::from(v));
    f64 => |v| Self::Real(v);
    &str => |v| Self::Text(v.to_owned());
    &String => |v| Self::Text(v.clone());
    String => |v| Self::Text(v);
    Vec<u8> => |v| Self::Blob(v);
    Digest => |v| Self::Blob(v.bytes().to_vec());
    Timestamp => |v| Self::Int(v.ms());
    CollectionKey => |v| Self::Int(i64::from(v.0));
    LaneKey => |v| Self::Int(i64::from(v.0));
    PipelineKey => |v| Self::Int(v.0);
    Seq => |v| Self::Int(int_of(v.0));
    u64 => |v| Self::Int(int_of(v));
    Uuid => |v| Self::Uuid(v);
    ItemId => |v| Self::Uuid(v.uuid());
    UploadId => |v| Self::Uuid(v.uuid());
    PauseId => |v| Self::Uuid(v.uuid());
    KeyId => |v| Self::Uuid(v.uuid());
    ReviewId => |v| Self::Uuid(v.uuid());
    NotificationId => |v| Self::Uuid(v.uuid());
    DeliveryId => |v| Self::Uuid(v.uuid());
    &docket_core::name::TenantId => |v| Self::Text(v.as_str().to_owned());
    &docket_core::name::CollectionId => |v| Self::Text(v.as_str().to_owned());
    &docket_core::name::PipelineName => |v| Self::Text(v.as_str().to_owned());
    &docket_core::scope::Actor => |v| Self::Text(v.as_str().to_owned());
}

/// A count as the databases store it.
pub fn int_of(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The parameters of a statement.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => { &[$($crate::value::Value::from($value)),*] };
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Bool(v) => v.to_sql(ty, out),
            Self::Int(v) => int_to_sql(*v, ty, out),
            Self::Real(v) => v.to_sql(ty, out),
            Self::Text(v) => v.to_sql(ty, out),
            Self::Blob(v) => v.to_sql(ty, out),
            Self::Uuid(v) => {
                out.extend_from_slice(v.as_bytes());
                Ok(IsNull::No)
            }
            Self::Bools(v) => v.to_sql(ty, out),
            Self::Ints(v) => v.to_sql(ty, out),
            Self::Reals(v) => v.to_sql(ty, out),
            Self::Texts(v) => v.to_sql(ty, out),
            Self::Blobs(v) => v.to_sql(ty, out),
            Self::Uuids(v) => v.iter().map(|id| PgUuid(*id)).collect::<Vec<_>>().to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

fn int_to_sql(v: i64, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
    match *ty {
        Type::INT2 => i16::try_from(v)?.to_sql(ty, out),
        Type::INT4 => i32::try_from(v)?.to_sql(ty, out),
        Type::INT8 => v.to_sql(ty, out),
        ref other => Err(format!("an integer was given where {other} is needed").into()),
    }
}

#[derive(Debug)]
struct PgUuid(Uuid);

impl ToSql for PgUuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    tokio_postgres::types::to_sql_checked!();
}

impl FromSql<'_> for Value {
    fn from_sql(ty: &Type, raw: &[u8]) -> Result<Self, BoxError> {
        Ok(match *ty {
            Type::BOOL => Self::Bool(bool::from_sql(ty, raw)?),
            Type::INT2 => Self::Int(i64::from(i16::from_sql(ty, raw)?)),
            Type::INT4 => Self::Int(i64::from(i32::from_sql(ty, raw)?)),
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::FLOAT8 => Self::Real(f64::from_sql(ty, raw)?),
            Type::BYTEA => Self::Blob(raw.to_vec()),
            Type::UUID => Self::Uuid(Uuid::from_slice(raw)?),
            _ => Self::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxError> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = |text: serde_json::Result<String>| {
            text.map(|text| ToSqlOutput::Owned(SqliteValue::Text(text)))
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
        };
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(SqliteValue::Null),
            Self::Bool(v) => ToSqlOutput::Owned(SqliteValue::Integer(i64::from(*v))),
            Self::Int(v) => ToSqlOutput::Owned(SqliteValue::Integer(*v)),
            Self::Real(v) => ToSqlOutput::Owned(SqliteValue::Real(*v)),
            Self::Text(v) => ToSqlOutput::Borrowed(ValueRef::Text(v.as_bytes())),
            Self::Blob(v) => ToSqlOutput::Borrowed(ValueRef::Blob(v)),
            Self::Uuid(v) => ToSqlOutput::Borrowed(ValueRef::Blob(v.as_bytes())),
            Self::Bools(v) => json(serde_json::to_string(v))?,
            Self::Ints(v) => json(serde_json::to_string(v))?,
            Self::Reals(v) => json(serde_json::to_string(v))?,
            Self::Texts(v) => json(serde_json::to_string(v))?,
            Self::Blobs(_) | Self::Uuids(_) => {
                let error = "SQLite takes no arrays of bytes; loop over them instead";
                return Err(rusqlite::Error::ToSqlConversionFailure(error.into()));
            }
        })
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(v) => Self::Int(v),
            ValueRef::Real(v) => Self::Real(v),
            ValueRef::Text(v) => Self::Text(String::from_utf8_lossy(v).into_owned()),
            ValueRef::Blob(v) => Self::Blob(v.to_vec()),
        }
    }
}

/// A row, read column by column in the order of its statement.
#[derive(Debug)]
pub struct Row {
    pub(crate) statement: &'static str,
    pub(crate) values: Vec<Value>,
}

macro_rules! column {
    ($(#[$doc:meta])* $name:ident, $opt:ident, $ty:ty, |$v:ident| $take:expr) => {
        $(#[$doc])*
        pub fn $name(&mut self, column: usize) -> Result<$ty> {
            let statement = self.statement;
            self.$opt(column)?.ok_or(Error::Inconsistent { statement, column })
        }

        /// The same, where there may be none.
        pub fn $opt(&mut self, column: usize) -> Result<Option<$ty>> {
            let wrong = Error::Inconsistent { statement: self.statement, column };
            match self.values.get_mut(column).map(std::mem::take) {
                Some(Value::Null) => Ok(None),
                Some($v) => $take.map(Some).ok_or(wrong),
                None => Err(wrong),
            }
        }
    };
}

/// Reading takes the value out of the row: each column is read once.
impl Row {
    column!(
        /// An integer.
        int, opt_int, i64, |v| match v { Value::Int(v) => Some(v), _ => None });
    column!(
        /// A count, never negative.
        count, opt_count, u64, |v| match v { Value::Int(v) => u64::try_from(v).ok(), _ => None });
    column!(
    /// A number.
    real, opt_real, f64, |v| match v {
        Value::Real(v) => Some(v),
        #[expect(clippy::cast_precision_loss, reason = "SQLite gives whole reals back as integers")]
        Value::Int(v) => Some(v as f64),
        _ => None,
    });
    column!(
        /// A text.
        text, opt_text, String, |v| match v { Value::Text(v) => Some(v), _ => None });
    column!(
        /// Bytes.
        blob, opt_blob, Vec<u8>, |v| match v { Value::Blob(v) => Some(v), _ => None });
    column!(
    /// A UUID.
    uuid, opt_uuid, Uuid, |v| match v {
        Value::Uuid(v) => Some(v),
        Value::Blob(v) => Uuid::from_slice(&v).ok(),
        _ => None,
    });
    column!(
        /// A truth value.
        bool, opt_bool, bool, |v| match v { Value::Bool(v) => Some(v), Value::Int(v) => Some(v != 0), _ => None });
    column!(
        /// A moment.
        time, opt_time, Timestamp, |v| match v { Value::Int(v) => Some(Timestamp::from_ms(v)), _ => None });
    column!(
        /// A lane's key.
        lane, opt_lane, LaneKey, |v| key(&v).map(LaneKey));
    column!(
        /// A collection's key.
        collection, opt_collection, CollectionKey, |v| key(&v).map(CollectionKey));
    column!(
        /// A pipeline's key.
        pipeline, opt_pipeline, PipelineKey, |v| match v { Value::Int(v) => Some(PipelineKey(v)), _ => None });
    column!(
        /// A job's place in its lane.
        seq, opt_seq, Seq, |v| match v { Value::Int(v) => u64::try_from(v).ok().map(Seq), _ => None });
    column!(
    /// An item's id.
    item, opt_item, ItemId, |v| match v {
        Value::Uuid(v) => Some(ItemId::from_uuid(v)),
        Value::Blob(v) => Uuid::from_slice(&v).ok().map(ItemId::from_uuid),
        _ => None,
    });
    column!(
    /// A review's id.
    review, opt_review, ReviewId, |v| match v {
        Value::Uuid(v) => Some(ReviewId::from_uuid(v)),
        Value::Blob(v) => Uuid::from_slice(&v).ok().map(ReviewId::from_uuid),
        _ => None,
    });
    column!(
        /// A digest.
        digest, opt_digest, Digest, |v| match v { Value::Blob(v) => Digest::from_bytes(&v), _ => None });

    /// What is wrong with this row, for a value that is there and makes no sense.
    pub const fn inconsistent(&self, column: usize) -> Error {
        Error::Inconsistent {
            statement: self.statement,
            column,
        }
    }
}

fn key(value: &Value) -> Option<u32> {
    match value {
        Value::Int(v) => u32::try_from(*v).ok(),
        _ => None,
    }
}
