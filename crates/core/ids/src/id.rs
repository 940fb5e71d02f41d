//! The macro that declares an id type: newtype, prefix, text form, JSON form and schema.

use uuid::Uuid;

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

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(uuid::Uuid);

        impl $crate::TypedId for $name {
            const PREFIX: &'static str = $prefix;
            fn from_uuid(uuid: uuid::Uuid) -> Self { Self(uuid) }
            fn uuid(self) -> uuid::Uuid { self.0 }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}_{}", $prefix, $crate::base32::encode(self.0.as_u128()))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::IdError;
            fn from_str(text: &str) -> Result<Self, $crate::IdError> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then($crate::base32::decode)
                    .map(|value| Self(uuid::Uuid::from_u128(value)))
                    .ok_or($crate::IdError { prefix: $prefix })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(concat!("^", $prefix, "_[0-7][0-9a-hjkmnp-tv-z]{25}$")))
                    .examples([concat!($prefix, "_01h455vb4pex5vsknk084sn02q")])
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    )*};
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
