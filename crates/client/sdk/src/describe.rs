//! The API description as data: endpoints and their arguments.
//!
//! It only reads the parts of OpenAPI that our own document uses. A general OpenAPI reader was rejected: it would give
//! callers a tree to walk, where they need a list of endpoints with their fields.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::{DOCUMENT, Error};

/// All endpoints of an API.
#[derive(Debug)]
pub struct Description {
    /// Version of the contract.
    pub version: String,
    /// Endpoints, in the order of the document.
    pub endpoints: Vec<Endpoint>,
}

/// Kind of endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Changes something.
    Command,
    /// Machine traffic.
    Machine,
    /// Changes nothing.
    Read,
}

/// Format of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// One JSON document.
    Json,
    /// Server-sent events.
    EventStream,
    /// One JSON document per line.
    JsonLines,
    /// A WebSocket.
    Socket,
}

/// One endpoint.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `noun_verb`.
    pub id: String,
    /// The HTTP method, in capitals.
    pub method: String,
    /// The path, with `{parameters}`.
    pub path: String,
    /// Command, machine or read.
    pub kind: Kind,
    /// Summary of one line.
    pub summary: String,
    /// Longer description, if any.
    pub description: String,
    /// Required permission, as `noun.verb`.
    pub permission: Option<String>,
    /// Whether a token is required.
    pub needs_credential: bool,
    /// Path parameters, in order.
    pub path_params: Vec<Field>,
    /// Query parameters.
    pub query_params: Vec<Field>,
    /// Members of the body; `None` if there is no body.
    pub body_fields: Option<Vec<Field>>,
    /// Whether `Idempotency-Key` is sent.
    pub needs_idempotency_key: bool,
    /// Whether `If-Match` is sent.
    pub if_match: bool,
    /// Format of the response.
    pub answer: Answer,
}

/// An argument in the path, the query or the body.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name on the wire.
    pub name: String,
    /// Description.
    pub description: String,
    /// Whether it is required.
    pub required: bool,
    /// Its type.
    pub kind: FieldKind,
    /// An example.
    pub example: Option<String>,
    /// Whether it must not be printed or passed on a command line.
    pub secret: bool,
}

/// Type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// One of these values.
    Word(Vec<String>),
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// A list of texts.
    Texts,
    /// A map of texts, such as labels.
    TextMap,
    /// Any other JSON.
    Json,
}

impl Description {
    /// Returns the description this client was built with.
    pub fn embedded() -> &'static Description {
        static EMBEDDED: OnceLock<Description> = OnceLock::new();
        EMBEDDED.get_or_init(|| {
            Description::parse(DOCUMENT).expect("the document that is built in was checked by a test")
        })
    }

    /// Parses a document.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let document: Value = serde_json::from_str(text)
            .map_err(|error| Error::Setup(format!("the description is not JSON: {error}")))?;
        let empty = Map::new();
        let paths = document["paths"].as_object().unwrap_or(&empty);
        let mut endpoints = Vec::new();
        for (path, item) in paths {
            for (method, described) in item.as_object().unwrap_or(&empty) {
                if described["operationId"].is_string() {
                    endpoints.push(endpoint(&document, path, method, described));
                }
            }
        }
        Ok(Self { version: text_of(&document["info"]["version"]), endpoints })
    }

    /// Returns the endpoint with this id.
    pub fn endpoint(&self, id: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.id == id)
    }
}

impl Endpoint {
    /// Returns the path of the target resource, which `GET` reads. A change or removal has the same path; an action has
    /// its verb after the last parameter.
    pub fn resource_path(&self) -> &str {
        if self.method != "POST" {
            return &self.path;
        }
        self.path.rfind('}').map_or(&self.path, |end| &self.path[..=end])
    }
}

fn endpoint(document: &Value, path: &str, method: &str, described: &Value) -> Endpoint {
    let empty = Vec::new();
    let parameters = described["parameters"].as_array().unwrap_or(&empty);
    let place = |place: &str| -> Vec<Field> {
        parameters
            .iter()
            .filter(|parameter| parameter["in"] == place)
            .map(|found| parameter(document, found))
            .collect()
    };
    let headers = place("header");
    let header = |name: &str| headers.iter().any(|field| field.name.eq_ignore_ascii_case(name));
    let body = described.pointer("/requestBody/content/application~1json/schema");
    let answers =
        ["200", "201", "202"].iter().find_map(|status| described["responses"][status]["content"].as_object());
    let answered_as = |media: &str| answers.is_some_and(|content| content.contains_key(media));
    Endpoint {
        id: text_of(&described["operationId"]),
        method: method.to_uppercase(),
        path: path.to_owned(),
        kind: match described["x-kind"].as_str() {
            Some("command") => Kind::Command,
            Some("machine") => Kind::Machine,
            _ => Kind::Read,
        },
        summary: text_of(&described["summary"]),
        description: text_of(&described["description"]),
        permission: described["x-permission"].as_str().map(str::to_owned),
        needs_credential: !described["security"].as_array().is_some_and(Vec::is_empty),
        path_params: place("path"),
        query_params: place("query"),
        body_fields: body.map(|schema| fields(document, schema)),
        needs_idempotency_key: header("Idempotency-Key"),
        if_match: header("If-Match"),
        answer: if answered_as("text/event-stream") {
            Answer::EventStream
        } else if answered_as("application/x-ndjson") {
            Answer::JsonLines
        } else if described["responses"]["101"].is_object() {
            Answer::Socket
        } else {
            Answer::Json
        },
    }
}

fn parameter(document: &Value, parameter: &Value) -> Field {
    let required = parameter["required"] == Value::Bool(true);
    field(document, &text_of(&parameter["name"]), &parameter["description"], required, &parameter["schema"])
}

fn fields(document: &Value, schema: &Value) -> Vec<Field> {
    let schema = resolve(document, schema);
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|other| other == name))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| field(document, name, &property["description"], required(name), property))
        .collect()
}

fn field(document: &Value, name: &str, description: &Value, required: bool, schema: &Value) -> Field {
    let schema = resolve(document, schema);
    let example = schema.get("example").or_else(|| schema["examples"].get(0));
    Field {
        name: name.to_owned(),
        description: text_of(description),
        required,
        kind: kind(document, schema),
        example: example.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        secret: schema["format"] == "password" || name.ends_with("password"),
    }
}

fn kind(document: &Value, schema: &Value) -> FieldKind {
    let is_text = |schema: &Value| resolve(document, schema)["type"] == "string";
    match schema["type"].as_str() {
        Some("string") => match schema["enum"].as_array() {
            Some(words) => FieldKind::Word(words.iter().map(text_of).collect()),
            None => FieldKind::Text,
        },
        Some("integer") => FieldKind::Integer,
        Some("boolean") => FieldKind::Boolean,
        Some("array") if is_text(&schema["items"]) => FieldKind::Texts,
        Some("object") if is_text(&schema["additionalProperties"]) => FieldKind::TextMap,
        _ => FieldKind::Json,
    }
}

fn resolve<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(schema)
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_document_is_read_whole() {
        let description = Description::embedded();
        assert!(description.endpoints.len() >= 40, "{}", description.endpoints.len());
        for endpoint in &description.endpoints {
            assert!(!endpoint.summary.is_empty(), "{}", endpoint.id);
            let commands = endpoint.kind == Kind::Command && endpoint.method == "POST";
            assert_eq!(endpoint.needs_idempotency_key, commands, "{}", endpoint.id);
        }
    }

    #[test]
    fn an_operation_is_read_with_its_fields() {
        let make = Description::embedded().endpoint("service_account_create").unwrap();
        assert_eq!((make.method.as_str(), make.kind, make.if_match), ("POST", Kind::Command, false));
        assert_eq!(make.path_params.iter().map(|field| field.name.as_str()).collect::<Vec<_>>(), ["project"]);
        let fields = make.body_fields.as_ref().unwrap();
        let by_name = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        assert!(by_name("name").required && !by_name("labels").required);
        assert_eq!(by_name("permissions").kind, FieldKind::Texts);
        assert_eq!(by_name("labels").kind, FieldKind::TextMap);
        assert_eq!(by_name("name").example.as_deref(), Some("ci"));
    }

    #[test]
    fn words_secrets_streams_and_resources_are_told_apart() {
        let description = Description::embedded();
        let bind = description.endpoint("role_binding_create").unwrap();
        let role = bind.body_fields.iter().flatten().find(|field| field.name == "role").unwrap();
        assert!(matches!(&role.kind, FieldKind::Word(words) if words.contains(&"tenant_admin".to_owned())));
        let person = description.endpoint("user_set_password").unwrap();
        assert!(person.body_fields.iter().flatten().all(|field| field.secret));
        assert_eq!(person.resource_path(), "/v1/users/{user}");
        let quota = description.endpoint("quota_set").unwrap();
        assert_eq!(quota.resource_path(), "/v1/projects/{project}/quota");
        assert_eq!(description.endpoint("event_stream").unwrap().answer, Answer::EventStream);
        assert_eq!(description.endpoint("audit_export").unwrap().answer, Answer::JsonLines);
        assert!(!description.endpoint("session_create").unwrap().needs_credential);
        assert!(description.endpoint("tenant_update").unwrap().if_match);
    }
}
