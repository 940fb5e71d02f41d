//! What is asked of placement.

use serde::{Deserialize, Serialize};

/// Whether nodes are filled one after the other or loaded evenly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The node with the fewest GPUs left over: whole nodes stay whole for those who need one.
    #[default]
    Pack,
    /// The node with the most GPUs left over: one lost node hurts fewer allocations.
    Spread,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 2] = [Strategy::Pack, Strategy::Spread];

    /// The word on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Strategy::Pack => "pack",
            Strategy::Spread => "spread",
        }
    }

    /// The strategy that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// What an allocation needs of one node, as far as slots go: the counters (cpus, memory, disk) are the store's to
/// compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// How many GPUs; none is legal.
    pub gpus: u8,
    /// Whether the node is taken whole.
    pub exclusive: bool,
    /// Which node is preferred among those that hold it equally well.
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
