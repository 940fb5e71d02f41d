//! The layer between statements and the two drivers: a closed set of values, rows and statements.
//!
//! A repository trait with two implementations was rejected: the SQL text is the same for nearly every statement, and only
//! the binding differs. Statements are constants; no SQL is built at run time.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use muster_ids::{Id, IdKind, TypedId};
use muster_model::record::{FieldKind, FieldSource, FieldValue};
use serde_json::Value as Json;
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteRow};
use sqlx::{Column as _, Row as _, query::Query};
use uuid::Uuid;

use crate::StoreError;

/// A statement: one text for both databases, or a pair where the databases need different SQL.
#[derive(Debug, Clone, Copy)]
pub struct Sql {
    /// Its name, for fault injection, the golden list of pairs, and logs.
    pub name: &'static str,
    /// For PostgreSQL.
    pub pg: &'static str,
    /// For SQLite.
    pub sqlite: &'static str,
}

/// The texts of a statement: PostgreSQL, then SQLite.
pub(crate) struct Texts(pub(crate) &'static str, pub(crate) &'static str);

pub(crate) const fn both(text: &'static str) -> Texts {
    Texts(text, text)
}

pub(crate) const fn pair(pg: &'static str, sqlite: &'static str) -> Texts {
    Texts(pg, sqlite)
}

/// Declares the statements of a file, and `ALL` of them for the test that prepares each on both databases.
macro_rules! statements {
    ($($(#[$attribute:meta])* $name:ident = $texts:expr;)*) => {
        $($(#[$attribute])* const $name: $crate::sql::Sql = {
            let $crate::sql::Texts(pg, sqlite) = $texts;
            $crate::sql::Sql { name: stringify!($name), pg, sqlite }
        };)*
        #[cfg(feature = "test-api")]
        pub(crate) const ALL: &[$crate::sql::Sql] = &[$($name,)*];
    };
}
pub(crate) use statements;

/// The condition of a label selector over the column `labels`: `$equal` and `$not_equal` are JSON objects.
macro_rules! labels_match {
    (pg $equal:literal $not_equal:literal) => {
        concat!(
            " labels @> ",
            $equal,
            " AND NOT EXISTS (SELECT 1 FROM jsonb_each_text(",
            $not_equal,
            ") AS term WHERE labels ->> term.key = term.value) "
        )
    };
    (sqlite $equal:literal $not_equal:literal) => {
        concat!(
            " NOT EXISTS (SELECT 1 FROM json_each(",
            $equal,
            ") AS term WHERE labels ->> term.key IS NOT term.value)",
            " AND NOT EXISTS (SELECT 1 FROM json_each(",
            $not_equal,
            ") AS term WHERE labels ->> term.key = term.value) "
        )
    };
}
pub(crate) use labels_match;

/// A value to bind. Every scalar variant can be NULL, so that NULL keeps its type.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Bool(Option<bool>),
    I64(Option<i64>),
    Text(Option<String>),
    Uuid(Option<Uuid>),
    Time(Option<Timestamp>),
    Json(Option<Json>),
    Bytes(Option<Vec<u8>>),
    /// Column arrays of many rows, for PostgreSQL's `unnest`; SQLite gets such rows as JSON.
    Texts(Vec<Option<String>>),
    I64s(Vec<Option<i64>>),
    Uuids(Vec<Option<Uuid>>),
    Times(Vec<Timestamp>),
}

macro_rules! values {
    ($($from:ty => $variant:ident $convert:expr;)*) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self { Value::$variant(Some($convert(value))) }
        }
        impl From<Option<$from>> for Value {
            fn from(value: Option<$from>) -> Self { Value::$variant(value.map($convert)) }
        }
    )*};
}

values! {
    bool => Bool std::convert::identity;
    i64 => I64 std::convert::identity;
    String => Text std::convert::identity;
    &str => Text str::to_owned;
    &String => Text String::clone;
    Uuid => Uuid std::convert::identity;
    Timestamp => Time std::convert::identity;
    Json => Json std::convert::identity;
    Vec<u8> => Bytes std::convert::identity;
    [u8; 32] => Bytes Vec::from;
}

impl<K: IdKind> From<Id<K>> for Value {
    fn from(id: Id<K>) -> Self {
        Value::Uuid(Some(id.uuid()))
    }
}

impl<K: IdKind> From<Option<Id<K>>> for Value {
    fn from(id: Option<Id<K>>) -> Self {
        Value::Uuid(id.map(TypedId::uuid))
    }
}

impl From<&muster_model::Labels> for Value {
    fn from(labels: &muster_model::Labels) -> Self {
        Value::Json(Some(serde_json::to_value(labels).expect("labels are JSON")))
    }
}

impl From<FieldValue> for Value {
    fn from(value: FieldValue) -> Self {
        match value {
            FieldValue::Null(FieldKind::Bool) => Value::Bool(None),
            FieldValue::Null(FieldKind::I64) => Value::I64(None),
            FieldValue::Null(FieldKind::Text) => Value::Text(None),
            FieldValue::Null(FieldKind::Uuid) => Value::Uuid(None),
            FieldValue::Null(FieldKind::Time) => Value::Time(None),
            FieldValue::Null(FieldKind::Json) => Value::Json(None),
            FieldValue::Null(FieldKind::Bytes) => Value::Bytes(None),
            FieldValue::Bool(value) => Value::Bool(Some(value)),
            FieldValue::I64(value) => Value::I64(Some(value)),
            FieldValue::Text(value) => Value::Text(Some(value)),
            FieldValue::Uuid(value) => Value::Uuid(Some(value)),
            FieldValue::Time(value) => Value::Time(Some(value)),
            FieldValue::Json(value) => Value::Json(Some(value)),
            FieldValue::Bytes(value) => Value::Bytes(Some(value)),
        }
    }
}

/// The arguments of a statement, in order.
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::sql::Value::from($value)),*] };
}
pub(crate) use args;

pub(crate) fn bind_pg(sql: &Sql, args: Vec<Value>) -> Query<'static, Postgres, PgArguments> {
    bind_pg_text(sql.pg, args)
}

pub(crate) fn bind_pg_text(text: &'static str, args: Vec<Value>) -> Query<'static, Postgres, PgArguments> {
    args.into_iter().fold(sqlx::query(text), |query, value| match value {
        Value::Bool(value) => query.bind(value),
        Value::I64(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Uuid(value) => query.bind(value),
        Value::Time(value) => query.bind(value.map(|time| time.to_sqlx())),
        Value::Json(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::Texts(values) => query.bind(values),
        Value::I64s(values) => query.bind(values),
        Value::Uuids(values) => query.bind(values),
        Value::Times(values) => query.bind(values.into_iter().map(|time| time.to_sqlx()).collect::<Vec<_>>()),
    })
}

pub(crate) fn bind_sqlite(sql: &Sql, args: Vec<Value>) -> Query<'static, Sqlite, SqliteArguments> {
    args.into_iter().fold(sqlx::query(sql.sqlite), |query, value| match value {
        Value::Bool(value) => query.bind(value.map(i64::from)),
        Value::I64(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Uuid(value) => query.bind(value.map(|uuid| uuid.to_string())),
        Value::Time(value) => query.bind(value.map(|time| time.as_microsecond())),
        Value::Json(value) => query.bind(value.map(|json| json.to_string())),
        Value::Bytes(value) => query.bind(value),
        // Statements with array values are pairs, and their SQLite side takes JSON.
        Value::Texts(_) | Value::I64s(_) | Value::Uuids(_) | Value::Times(_) => query.bind(None::<String>),
    })
}

/// A row of either driver.
pub(crate) enum Row {
    Pg(PgRow),
    Sqlite(SqliteRow),
}

impl Row {
    /// Returns the column at `index`, counted from 0.
    pub(crate) fn get<C: Column>(&self, index: usize) -> Result<C, StoreError> {
        match self {
            Row::Pg(row) => C::from_pg(row, index),
            Row::Sqlite(row) => C::from_sqlite(row, index),
        }
    }
}

impl FieldSource for Row {
    type Error = StoreError;

    fn value(&self, column: &'static str, kind: FieldKind) -> Result<FieldValue, StoreError> {
        let index = match self {
            Row::Pg(row) => row.try_column(column).map(|column| column.ordinal()),
            Row::Sqlite(row) => row.try_column(column).map(|column| column.ordinal()),
        }?;
        let value = match kind {
            FieldKind::Bool => self.get::<Option<bool>>(index)?.map(FieldValue::Bool),
            FieldKind::I64 => self.get::<Option<i64>>(index)?.map(FieldValue::I64),
            FieldKind::Text => self.get::<Option<String>>(index)?.map(FieldValue::Text),
            FieldKind::Uuid => self.get::<Option<Uuid>>(index)?.map(FieldValue::Uuid),
            FieldKind::Time => self.get::<Option<Timestamp>>(index)?.map(FieldValue::Time),
            FieldKind::Json => self.get::<Option<Json>>(index)?.map(FieldValue::Json),
            FieldKind::Bytes => self.get::<Option<Vec<u8>>>(index)?.map(FieldValue::Bytes),
        };
        Ok(value.unwrap_or(FieldValue::Null(kind)))
    }

    fn invalid(column: &'static str) -> StoreError {
        StoreError::Corrupt(column)
    }
}

/// A type that can be read from a column.
pub(crate) trait Column: Sized {
    fn from_pg(row: &PgRow, index: usize) -> Result<Self, StoreError>;
    fn from_sqlite(row: &SqliteRow, index: usize) -> Result<Self, StoreError>;
}

macro_rules! columns {
    ($($column:ty: $pg:ty => $from_pg:expr, $sqlite:ty => $from_sqlite:expr;)*) => {$(
        impl Column for $column {
            fn from_pg(row: &PgRow, index: usize) -> Result<Self, StoreError> {
                row.try_get::<$pg, _>(index).map_err(StoreError::from).and_then($from_pg)
            }
            fn from_sqlite(row: &SqliteRow, index: usize) -> Result<Self, StoreError> {
                row.try_get::<$sqlite, _>(index).map_err(StoreError::from).and_then($from_sqlite)
            }
        }
        impl Column for Option<$column> {
            fn from_pg(row: &PgRow, index: usize) -> Result<Self, StoreError> {
                row.try_get::<Option<$pg>, _>(index).map_err(StoreError::from)?.map($from_pg).transpose()
            }
            fn from_sqlite(row: &SqliteRow, index: usize) -> Result<Self, StoreError> {
                row.try_get::<Option<$sqlite>, _>(index).map_err(StoreError::from)?.map($from_sqlite).transpose()
            }
        }
    )*};
}

columns! {
    bool: bool => Ok, i64 => |value| Ok(value != 0);
    i64: i64 => Ok, i64 => Ok;
    String: String => Ok, String => Ok;
    Uuid: Uuid => Ok, String => |text| text.parse().map_err(|_| StoreError::Corrupt("a UUID"));
    Timestamp: jiff_sqlx::Timestamp => |time| Ok(time.to_jiff()),
        i64 => |micros| Timestamp::from_microsecond(micros).map_err(|_| StoreError::Corrupt("a time"));
    Json: Json => Ok, String => |text| serde_json::from_str(&text).map_err(|_| StoreError::Corrupt("JSON"));
    Vec<u8>: Vec<u8> => Ok, Vec<u8> => Ok;
    [u8; 32]: Vec<u8> => hash, Vec<u8> => hash;
}

fn hash(bytes: Vec<u8>) -> Result<[u8; 32], StoreError> {
    bytes.try_into().map_err(|_| StoreError::Corrupt("a SHA-256"))
}

impl<K: IdKind> Column for Id<K> {
    fn from_pg(row: &PgRow, index: usize) -> Result<Self, StoreError> {
        Uuid::from_pg(row, index).map(Self::from_uuid)
    }
    fn from_sqlite(row: &SqliteRow, index: usize) -> Result<Self, StoreError> {
        Uuid::from_sqlite(row, index).map(Self::from_uuid)
    }
}

impl<K: IdKind> Column for Option<Id<K>> {
    fn from_pg(row: &PgRow, index: usize) -> Result<Self, StoreError> {
        Ok(Option::<Uuid>::from_pg(row, index)?.map(Id::from_uuid))
    }
    fn from_sqlite(row: &SqliteRow, index: usize) -> Result<Self, StoreError> {
        Ok(Option::<Uuid>::from_sqlite(row, index)?.map(Id::from_uuid))
    }
}

impl Column for muster_model::Labels {
    fn from_pg(row: &PgRow, index: usize) -> Result<Self, StoreError> {
        serde_json::from_value(Json::from_pg(row, index)?).map_err(|_| StoreError::Corrupt("labels"))
    }
    fn from_sqlite(row: &SqliteRow, index: usize) -> Result<Self, StoreError> {
        serde_json::from_value(Json::from_sqlite(row, index)?).map_err(|_| StoreError::Corrupt("labels"))
    }
}
