//! The macro for reasons: a closed list of codes, each with advice.

/// Declares a closed list of reasons.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident; $($variant:ident = $word:literal, $advice:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $(#[doc = $advice] $variant,)* }

        impl $name {
            /// All values.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Returns its name on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// Parses a reason from its name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == text)
            }

            /// Returns the advice.
            pub fn advice(self) -> &'static str {
                match self { $($name::$variant => $advice,)* }
            }
        }
    };
}
pub(crate) use reasons;
