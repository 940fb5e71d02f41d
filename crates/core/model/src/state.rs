//! The macro for states: an enum with its names and transitions.

/// Declares a state machine. The names appear in the database's CHECK, on the wire and in the documents; a test compares
/// them.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal => [$($next:ident),* $(,)?];)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All values.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Returns its name on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// Parses a state from its name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|state| state.as_str() == text)
            }

            /// Reports whether it may become `next`. Staying the same is always allowed.
            pub fn can_become(self, next: Self) -> bool {
                self == next || self.successors().contains(&next)
            }

            fn successors(self) -> &'static [Self] {
                match self { $($name::$variant => &[$($name::$next,)*],)* }
            }

            /// Reports whether it is final.
            pub fn is_final(self) -> bool {
                self.successors().is_empty()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use states;
