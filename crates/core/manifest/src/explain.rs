//! Translates validation errors: the pointer names the invalid field, even if it is missing or unexpected. Values are never
//! repeated, because a configuration may be confidential.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

use crate::fault::{Fault, escaped};

/// Converts an error of a validator of `schema` to faults; `at` is the path of its document in ours.
pub(crate) fn explain(error: &ValidationError<'_>, schema: &Value, at: &str) -> Vec<Fault> {
    let path = format!("{at}{}", error.instance_path());
    let one = |rule, message: String| vec![Fault::error(path.clone(), rule, message)];
    let inside = |name: &str| format!("{path}/{}", escaped(name));
    match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .map(|name| {
                let message = "there is no such field here: remove it, or check its spelling";
                Fault::error(inside(name), "unknown_field", message)
            })
            .collect(),
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![Fault::error(inside(name), "missing_field", "it is missing: add it")]
        }
        Kind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(several) => {
                    several.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or ")
                }
            };
            let is = name_of(error.instance());
            one("wrong_type", format!("it must be of type {wanted}, and is of type {is}: change it"))
        }
        Kind::Enum { options } => one("not_a_choice", format!("it must be one of {}", words(options))),
        Kind::Constant { expected_value } => one("not_a_choice", format!("it must be {expected_value}")),
        Kind::Minimum { limit } => one("out_of_range", format!("it must be at least {limit}: raise it")),
        Kind::Maximum { limit } => one("out_of_range", format!("it must be at most {limit}: lower it")),
        Kind::ExclusiveMinimum { limit } => {
            one("out_of_range", format!("it must be above {limit}: raise it"))
        }
        Kind::ExclusiveMaximum { limit } => {
            one("out_of_range", format!("it must be below {limit}: lower it"))
        }
        Kind::MinItems { limit } => {
            one("out_of_range", format!("it must have at least {limit} entries: add some"))
        }
        Kind::MaxItems { limit } => {
            one("out_of_range", format!("it must have at most {limit} entries: remove some"))
        }
        Kind::MinLength { limit } => one("out_of_range", format!("it must have at least {limit} characters")),
        Kind::MaxLength { limit } => {
            one("out_of_range", format!("it must have at most {limit} characters: shorten it"))
        }
        Kind::Pattern { pattern } => one("pattern", format!("it must match {pattern}: change it")),
        Kind::OneOfNotValid { context } | Kind::AnyOf { context } => {
            // If only one form can have been intended, its own errors are more useful than "no form fits".
            let mut meant =
                context.iter().filter(|branch| !branch.iter().any(|inner| is_another(inner, error)));
            match (meant.next(), meant.next()) {
                (Some(branch), None) => branch.iter().flat_map(|inner| explain(inner, schema, at)).collect(),
                _ => one("not_a_choice", forms(error, schema)),
            }
        }
        Kind::OneOfMultipleValid { .. } => {
            one("not_a_choice", "it matches several forms at once: choose one".to_owned())
        }
        _ => one("shape", format!("{}: write it as the schema requires", error.masked())),
    }
}

/// Reports whether the error means that the value has another form altogether.
fn is_another(inner: &ValidationError<'_>, outer: &ValidationError<'_>) -> bool {
    inner.instance_path() == outer.instance_path()
        && matches!(inner.kind(), Kind::Type { .. } | Kind::Required { .. } | Kind::Enum { .. })
}

/// Lists the allowed forms, as far as the schema shows them.
fn forms(error: &ValidationError<'_>, schema: &Value) -> String {
    let branches = schema.pointer(error.schema_path().as_str()).and_then(Value::as_array);
    let form = |branch: &Value| {
        let named = branch["required"].as_array().and_then(|names| names.first()?.as_str());
        match named {
            Some(name) => format!("{{\"{name}\": …}}"),
            None => words(&branch["enum"]),
        }
    };
    let forms: Vec<String> =
        branches.into_iter().flatten().map(form).filter(|form| !form.is_empty()).collect();
    match forms.is_empty() {
        true => "it matches none of the allowed forms: write it as the schema requires".to_owned(),
        false => format!("it must be one of {}", forms.join(", ")),
    }
}

fn words(options: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    options.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
