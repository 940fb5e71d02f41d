//! A noun's fields, declared once.
//!
//! `record!` wraps the struct of a stored resource and leaves it as written; from its field list it derives the columns, the
//! values to bind and the reader by column name. The database layer makes its statements of them. A derive macro was rejected:
//! it needs a crate of its own, and this list is all that it would read.

use jiff::Timestamp;
use muster_ids::{Id, IdError, IdKind, ProjectId, TypedId};
use serde_json::Value as Json;
use uuid::Uuid;

use crate::audit::Target;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// BOOLEAN.
    Bool,
    /// BIGINT.
    I64,
    /// TEXT.
    Text,
    /// UUID.
    Uuid,
    /// TIMESTAMPTZ.
    Time,
    /// JSONB.
    Json,
    /// BYTEA.
    Bytes,
}

/// Value of a column. NULL has a type, because a database binds it as one.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// NULL.
    Null(FieldKind),
    /// BOOLEAN.
    Bool(bool),
    /// BIGINT.
    I64(i64),
    /// TEXT.
    Text(String),
    /// UUID.
    Uuid(Uuid),
    /// TIMESTAMPTZ.
    Time(Timestamp),
    /// JSONB.
    Json(Json),
    /// BYTEA.
    Bytes(Vec<u8>),
}

/// A type that one column can hold.
pub trait Field: Sized {
    /// Its column's type.
    const KIND: FieldKind;
    /// Returns the value to store.
    fn to_value(&self) -> FieldValue;
    /// Reads a stored value; `None` if this program cannot have written it.
    fn from_value(value: FieldValue) -> Option<Self>;
}

macro_rules! plain_fields {
    ($($field:ty => $kind:ident;)*) => {$(
        impl Field for $field {
            const KIND: FieldKind = FieldKind::$kind;
            fn to_value(&self) -> FieldValue { FieldValue::$kind(self.clone()) }
            fn from_value(value: FieldValue) -> Option<Self> {
                match value { FieldValue::$kind(value) => Some(value), _ => None }
            }
        }
    )*};
}

plain_fields! {
    bool => Bool;
    i64 => I64;
    String => Text;
    Uuid => Uuid;
    Timestamp => Time;
    Json => Json;
    Vec<u8> => Bytes;
}

impl<K: IdKind> Field for Id<K> {
    const KIND: FieldKind = FieldKind::Uuid;
    fn to_value(&self) -> FieldValue {
        FieldValue::Uuid(self.uuid())
    }
    fn from_value(value: FieldValue) -> Option<Self> {
        Uuid::from_value(value).map(Self::from_uuid)
    }
}

impl<F: Field> Field for Option<F> {
    const KIND: FieldKind = F::KIND;
    fn to_value(&self) -> FieldValue {
        self.as_ref().map_or(FieldValue::Null(F::KIND), Field::to_value)
    }
    fn from_value(value: FieldValue) -> Option<Self> {
        match value {
            FieldValue::Null(_) => Some(None),
            value => F::from_value(value).map(Some),
        }
    }
}

/// A row that a record is read from.
pub trait FieldSource {
    /// Error of a read.
    type Error;
    /// Returns the value of a column.
    fn value(&self, column: &'static str, kind: FieldKind) -> Result<FieldValue, Self::Error>;
    /// Returns the error for a value that does not fit its column.
    fn invalid(column: &'static str) -> Self::Error;

    /// Reads a field.
    fn field<F: Field>(&self, column: &'static str) -> Result<F, Self::Error> {
        F::from_value(self.value(column, F::KIND)?).ok_or_else(|| Self::invalid(column))
    }
}

/// The resource that contains a record, which lists and names are limited to.
pub trait Parent: Copy + Send + 'static {
    /// Returns the value of the parent's column; `None` for the platform, which has none.
    fn value(self) -> Option<FieldValue>;
    /// Returns its path in the API.
    fn path(self) -> String;
}

impl Parent for () {
    fn value(self) -> Option<FieldValue> {
        None
    }
    fn path(self) -> String {
        "/v1".to_owned()
    }
}

impl Parent for ProjectId {
    fn value(self) -> Option<FieldValue> {
        Some(self.to_value())
    }
    fn path(self) -> String {
        format!("/v1/projects/{self}")
    }
}

/// A stored resource with an id and a version; `record!` implements it.
pub trait Record: std::fmt::Debug + Clone + Send + Sync + 'static {
    /// Type of its id.
    type Id: TypedId + Field + std::fmt::Display + std::str::FromStr<Err = IdError> + Send + Sync;
    /// The resource that contains it.
    type Parent: Parent;
    /// Its name in permissions, endpoints and statements, such as `ssh_key`.
    const NOUN: &'static str;
    /// Its name in messages, such as `SSH key`.
    const TITLE: &'static str;
    /// Its collection in paths, such as `ssh-keys`.
    const COLLECTION: &'static str;
    /// Its table.
    const TABLE: &'static str;
    /// Column of the parent's id.
    const PARENT: Option<&'static str>;
    /// Its columns: one for each field, with the field's name.
    const COLUMNS: &'static [&'static str];
    /// Whether its name is unique inside its parent, so that it can be found by name.
    const IS_NAME_UNIQUE: bool;
    /// Columns that an update writes; the others never change.
    const CHANGES: &'static [&'static str];

    /// Returns its id.
    fn id(&self) -> Self::Id;
    /// Returns the id of the resource that contains it.
    fn parent(&self) -> Self::Parent;
    /// Returns its name.
    fn name(&self) -> &str;
    /// Returns its version, for `If-Match`.
    fn version(&self) -> i64;
    /// Returns the values of the columns, in their order.
    fn values(&self) -> Vec<FieldValue>;
    /// Reads it from a row, by the names of the columns.
    fn from_row<S: FieldSource>(row: &S) -> Result<Self, S::Error>;

    /// Returns its path in the API, which is the subject of its events.
    fn path(&self) -> String {
        format!("{}/{}/{}", self.parent().path(), Self::COLLECTION, self.id())
    }

    /// Returns the target of its audit entries.
    fn target(&self) -> Target {
        Target { kind: Self::NOUN.to_owned(), id: self.id().to_string(), name: Some(self.name().to_owned()) }
    }
}

/// A function that is generic over records, as a value: the registry calls it once for each.
pub trait RecordVisitor {
    /// Visits a record type.
    fn visit<R: Record>(&mut self);
}

/// Declares a stored resource: the struct as written, and its `Record` implementation.
macro_rules! record {
    (
        noun $noun:literal, title $title:literal, path $collection:literal, table $table:literal,
        $(parent $parent:ident: $parent_type:ty,)? unique name $unique:literal, changes [$($change:ident),* $(,)?];
        $(#[$meta:meta])*
        pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }
    ) => {
        $(#[$meta])*
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $crate::record::Record for $name {
            type Id = $crate::record::first_type!($($type),*);
            type Parent = $crate::record::type_or_unit!($($parent_type)?);
            const NOUN: &'static str = $noun;
            const TITLE: &'static str = $title;
            const COLLECTION: &'static str = $collection;
            const TABLE: &'static str = $table;
            const PARENT: Option<&'static str> = $crate::record::optional!($(stringify!($parent))?);
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];
            const IS_NAME_UNIQUE: bool = $unique;
            const CHANGES: &'static [&'static str] = &[$(stringify!($change)),*];

            fn id(&self) -> Self::Id { self.id }
            fn parent(&self) -> Self::Parent { $(self.$parent)? }
            fn name(&self) -> &str { &self.name }
            fn version(&self) -> i64 { self.version }
            fn values(&self) -> Vec<$crate::record::FieldValue> {
                vec![$($crate::record::Field::to_value(&self.$field)),*]
            }
            fn from_row<S: $crate::record::FieldSource>(row: &S) -> Result<Self, S::Error> {
                Ok(Self { $($field: row.field(stringify!($field))?,)* })
            }
        }
    };
}
pub(crate) use record;

/// The type of the first field, which is the id.
macro_rules! first_type {
    ($first:ty $(, $rest:ty)*) => {
        $first
    };
}
pub(crate) use first_type;

macro_rules! type_or_unit {
    () => {
        ()
    };
    ($type:ty) => {
        $type
    };
}
pub(crate) use type_or_unit;

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}
pub(crate) use optional;
