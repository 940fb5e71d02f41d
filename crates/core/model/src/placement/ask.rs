//! A request to placement.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How nodes are filled: one after the other, or evenly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The node with the fewest GPUs left over: whole nodes stay free for requests that need one.
    #[default]
    Pack,
    /// The node with the most GPUs left over: a lost node affects fewer allocations.
    Spread,
}

impl Strategy {
    /// All values.
    pub const ALL: [Strategy; 2] = [Strategy::Pack, Strategy::Spread];

    /// Returns its name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::Pack => "pack",
            Strategy::Spread => "spread",
        }
    }

    /// Parses a strategy from its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// An allocation's request for slots of one node; the store compares the counters (cpus, memory, disk).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Number of GPUs, possibly none.
    pub gpus: u8,
    /// Whether the whole node is requested.
    pub exclusive: bool,
    /// Preference among nodes that fit equally well.
    pub strategy: Strategy,
}

#[cfg(test)]
mod tests {
    use super::Strategy;

    #[test]
    fn a_strategy_is_the_same_word_in_text_and_in_json() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::parse(strategy.as_str()), Some(strategy));
            assert_eq!(serde_json::to_value(strategy).unwrap(), strategy.as_str());
        }
        assert_eq!(Strategy::parse("random"), None);
        assert_eq!(Strategy::default(), Strategy::Pack);
    }
}
