//! Facts of the contract beside endpoints and fields: the commands that start an operation, and the fields that are
//! times. Both are read from the document: a hand-written list would miss the next new command.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use muster_sdk::DOCUMENT;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Facts, by endpoint id.
#[derive(Debug, Default)]
pub(crate) struct Contract {
    starts: BTreeSet<String>,
    times: BTreeSet<(String, String)>,
}

impl Contract {
    /// Returns the facts of the contract this client was built with.
    pub(crate) fn embedded() -> &'static Contract {
        static EMBEDDED: OnceLock<Contract> = OnceLock::new();
        EMBEDDED.get_or_init(|| Contract::parse(DOCUMENT))
    }

    /// Parses a document; an unreadable one yields no facts, and its endpoints stay usable.
    fn parse(text: &str) -> Self {
        let document: Document = serde_json::from_str(text).unwrap_or_default();
        let mut contract = Self::default();
        for described in document.paths.values().flat_map(BTreeMap::values) {
            if described.responses.contains_key("202") {
                contract.starts.insert(described.operation_id.clone());
            }
            let schema =
                described.request_body.as_ref().and_then(|body| body.content.get("application/json"));
            let name = schema.and_then(|media| media.schema.reference.as_deref()?.rsplit('/').next());
            let Some(schema) = name.and_then(|name| document.components.schemas.get(name)) else { continue };
            let times = schema
                .properties
                .iter()
                .filter(|(_, property)| property.format.as_deref() == Some("date-time"));
            contract.times.extend(times.map(|(field, _)| (described.operation_id.clone(), field.clone())));
        }
        contract
    }

    /// Reports whether the endpoint starts an operation: status 202.
    pub(crate) fn starts(&self, operation: &str) -> bool {
        self.starts.contains(operation)
    }

    /// Reports whether a field of the body is a time.
    pub(crate) fn is_time(&self, operation: &str, field: &str) -> bool {
        self.times.contains(&(operation.to_owned(), field.to_owned()))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    paths: BTreeMap<String, BTreeMap<String, Described>>,
    components: Components,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Components {
    schemas: BTreeMap<String, Schema>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Described {
    #[serde(rename = "operationId")]
    operation_id: String,
    responses: BTreeMap<String, IgnoredAny>,
    #[serde(rename = "requestBody")]
    request_body: Option<Body>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    content: BTreeMap<String, Media>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Media {
    schema: Schema,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    properties: BTreeMap<String, Property>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Property {
    format: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contract_document_declares_operation_starts_and_time_fields() {
        let contract = Contract::embedded();
        for id in ["allocation_create", "allocation_release", "node_drain", "node_retire"] {
            assert!(contract.starts(id), "{id}");
        }
        assert!(!contract.starts("tenant_create") && !contract.starts("operation_cancel"));
        assert!(contract.is_time("allocation_create", "wait_until"));
        assert!(contract.is_time("allocation_update", "expires_at"));
        assert!(!contract.is_time("allocation_create", "name"));
    }
}
