//! The one macro for states: an enum with its words, all of them, and what each can become.

/// Declares a state machine. The words stand in the database's CHECK, on the wire and in the documents; a test compares.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal => [$($next:ident),* $(,)?];)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word on the wire and in the database.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The state that is written so.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|state| state.as_str() == text)
            }

            /// Whether it may become `next`. Staying what it is, is no change and always allowed.
            pub fn can_become(self, next: Self) -> bool {
                self == next || self.successors().contains(&next)
            }

            fn successors(self) -> &'static [Self] {
                match self { $($name::$variant => &[$($name::$next,)*],)* }
            }

            /// Whether it stays so for ever.
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
