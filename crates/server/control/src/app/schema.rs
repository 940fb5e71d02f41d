//! Show the JSON schema of manifests.

use muster_api::Code;
use muster_api::app::ManifestSchema;
use serde_json::Value;

use crate::{Answer, Cx, Error, Result};

/// Handles `app_schema`. The response is the same for every valid credential.
pub async fn schema(cx: &Cx) -> Result<Answer> {
    cx.authenticated()?;
    match muster_manifest::schema() {
        Value::Object(schema) => Ok(Answer::new(&ManifestSchema { schema })),
        _ => Err(Error::new(Code::Internal, "the schema of manifests is not an object")),
    }
}
