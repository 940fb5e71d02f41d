//! The one macro for reasons: a closed list of words, each with what can be done about it.

/// Declares such a list.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident; $($variant:ident = $word:literal, $advice:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $(#[doc = $advice] $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The reason that is written so.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|reason| reason.as_str() == text)
            }

            /// What to do next.
            pub fn advice(self) -> &'static str {
                match self { $($name::$variant => $advice,)* }
            }
        }
    };
}
pub(crate) use reasons;
