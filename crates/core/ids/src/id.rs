//! Ids, generic over the kind of resource: prefix, text form, JSON form and schema.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use crate::base32;

/// Why a text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an id like {prefix}_01h455vb4pex5vsknk084sn02q")]
pub struct IdError {
    /// The expected prefix.
    pub prefix: &'static str,
}

/// Common interface of all ids; lets the store bind any of them.
pub trait TypedId: Copy + Sized {
    /// Letters before the underscore.
    const PREFIX: &'static str;
    /// Wraps a UUID read from the database.
    fn from_uuid(uuid: Uuid) -> Self;
    /// Returns the UUID as stored in the database.
    fn uuid(self) -> Uuid;
}

/// A kind of resource: the prefix of its ids, and the name of their type in schemas.
pub trait IdKind: 'static {
    /// Letters before the underscore.
    const PREFIX: &'static str;
    /// Name of the id type, such as `TenantId`.
    const NAME: &'static str;
}

/// An id of a resource of kind `K`. One generic type in place of a type per kind: the store binds and reads all of them with
/// one implementation.
pub struct Id<K>(Uuid, PhantomData<fn() -> K>);

impl<K: IdKind> TypedId for Id<K> {
    const PREFIX: &'static str = K::PREFIX;

    fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid, PhantomData)
    }

    fn uuid(self) -> Uuid {
        self.0
    }
}

// Derives would require the same of `K`, which is never a value.
impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Id<K> {}

impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K> Eq for Id<K> {}

impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<K: IdKind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", K::PREFIX, base32::encode(self.0.as_u128()))
    }
}

impl<K: IdKind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K: IdKind> FromStr for Id<K> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix(K::PREFIX)
            .and_then(|rest| rest.strip_prefix('_'))
            .and_then(base32::decode)
            .map(|value| Self::from_uuid(Uuid::from_u128(value)))
            .ok_or(IdError { prefix: K::PREFIX })
    }
}

impl<K: IdKind> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, K: IdKind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl<K: IdKind> PartialSchema for Id<K> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(format!("^{}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$", K::PREFIX)))
            .examples([format!("{}_01h455vb4pex5vsknk084sn02q", K::PREFIX)])
            .into()
    }
}

impl<K: IdKind> ToSchema for Id<K> {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed(K::NAME)
    }
}

/// Declares kinds and the names of their ids.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident of $kind:ident = $prefix:literal;)*) => {
        /// The kinds of resources, as types without values.
        pub mod kind {$(
            $(#[$doc])*
            pub enum $kind {}

            impl $crate::IdKind for $kind {
                const PREFIX: &'static str = $prefix;
                const NAME: &'static str = stringify!($name);
            }
        )*}
        $(
            $(#[$doc])*
            pub type $name = $crate::Id<kind::$kind>;
        )*
    };
}
pub(crate) use ids;

#[cfg(test)]
mod tests {
    use crate::{Env, TenantId, UserId};

    #[test]
    fn an_id_survives_text_and_json_and_refuses_another_prefix() {
        let env = Env::for_tests(7);
        let id: TenantId = env.id();
        assert_eq!(id.to_string().parse::<TenantId>(), Ok(id));
        assert_eq!(serde_json::from_str::<TenantId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        assert!(id.to_string().parse::<UserId>().is_err());
        assert!("ten_".parse::<TenantId>().is_err());
    }
}
