//! Errors for people: the cause, the correlation id, and the next step. And for scripts: a stable exit code
//! (`docs/reference/cli.md`).

use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Error, FieldError, Problem};
use serde_json::{Value, json};

use crate::flags::{is_place, typed_for};
use crate::printable::{printable, printable_json};
use crate::words::{Words, kebab};

/// The exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    Unauthenticated = 3,
    Denied = 4,
    NotFound = 5,
    Conflict = 6,
    Invalid = 7,
    RateLimited = 8,
    Unavailable = 9,
    OperationFailed = 10,
    OperationCancelled = 11,
    OperationSuperseded = 12,
    OperationBlocked = 13,
    OperationPartial = 14,
    WaitTimedOut = 15,
    /// Ctrl-C ended a wait; the operation continues.
    Interrupted = 130,
    /// A stream failed; every other status is that of the command in the cell.
    Stream = 255,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Stable code, for scripts.
    pub(crate) code: String,
    pub(crate) detail: String,
    /// Additional lines, such as errors of single fields.
    pub(crate) lines: Vec<String>,
    pub(crate) next: Option<String>,
    problem: Option<Box<Problem>>,
    /// Whether no message is printed.
    silent: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, code: &str, detail: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.to_owned(),
            detail: detail.into(),
            lines: Vec::new(),
            next: None,
            problem: None,
            silent: false,
        }
    }

    /// Returns a failure without a message, for the exit code only.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { silent: true, ..Self::new(exit, "", "") }
    }

    /// Returns a usage error.
    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", detail)
    }

    /// Returns a local error.
    pub(crate) fn local(what: &str, error: impl std::fmt::Display) -> Self {
        Self::new(Exit::Failed, "local", format!("{what}: {error}"))
    }

    /// Sets another exit code.
    pub(crate) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Returns the server's retry delay in seconds, if given.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.problem.as_ref()?.retry_after
    }

    /// Reports whether no message is printed.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Converts a failed call.
    pub(crate) fn call(operation: Option<&Endpoint>, error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Setup(_) => Self::usage(detail),
            Error::Unreachable { cause, .. } if cause.contains("certificate") => {
                Self::new(Exit::Unavailable, "untrusted", detail)
                    .next("if the server has its own certificate authority, name it with --ca-file PEM")
            }
            // The error of a TLS client that gets plain HTTP.
            Error::Unreachable { cause, .. } if cause.contains("InvalidContentType") => {
                Self::new(Exit::Unavailable, "unreachable", detail)
                    .next("the server speaks plain HTTP there: use http:// in its address")
            }
            Error::Unreachable { .. } => Self::new(Exit::Unavailable, "unreachable", detail)
                .next("is it running? start one with `muster up`, or set its address with --server URL"),
            Error::Lost { .. } => {
                let changes = operation.is_some_and(|operation| operation.method != "GET");
                let next = if changes {
                    "the request may have taken effect: check before you repeat it"
                } else {
                    "try again"
                };
                Self::new(Exit::Unavailable, "connection_lost", detail).next(next)
            }
            Error::Answer { .. } => Self::new(Exit::Failed, "strange_answer", detail)
                .next("is --server the address of a muster server?"),
            Error::Problem(problem) => Self::problem(operation, problem),
        }
    }

    /// Adjusts the advice for a login, which has no token to blame.
    pub(crate) fn wrong_password(mut self) -> Self {
        if self.exit == Exit::Unauthenticated {
            self.next = Some("check the tenant (`--tenant`), the address and the password; an admin can set a new one with `muster user set-password`".to_owned());
        }
        self
    }

    fn problem(operation: Option<&Endpoint>, problem: Box<Problem>) -> Self {
        let told = |fault: &FieldError| format!("{}: {}", flag(operation, &fault.pointer), fault.detail);
        // A problem with one field has its location before the detail.
        let only = match problem.errors.as_slice() {
            [fault] if problem.detail == format!("{}: {}", fault.pointer, fault.detail) => Some(told(fault)),
            _ => None,
        };
        let detail = only.unwrap_or_else(|| problem.detail.clone());
        let mut failure = Self::new(exit_of(problem.status), &problem.code, detail);
        failure.lines = problem
            .errors
            .iter()
            .filter(|fault| !problem.detail.contains(&fault.detail) || problem.errors.len() > 1)
            .map(told)
            .collect();
        failure.next = advice(operation, &problem);
        failure.problem = Some(problem);
        failure
    }

    /// Prints the failure, and returns the exit code.
    pub(crate) fn report(&self, as_json: bool) -> u8 {
        if !self.silent {
            eprint!("{}", if as_json { self.as_json() } else { self.as_text() });
        }
        self.exit as u8
    }

    fn as_json(&self) -> String {
        let document = match &self.problem {
            Some(problem) => serde_json::to_value(problem).unwrap_or(Value::Null),
            None => json!({"code": self.code, "detail": self.detail, "next": self.next}),
        };
        printable_json(&format!("{document:#}\n"))
    }

    fn as_text(&self) -> String {
        let mut text = format!("error: {}\n", printable(&self.detail));
        for line in &self.lines {
            text.push_str(&format!("  {}\n", printable(line)));
        }
        if let Some(problem) = &self.problem {
            text.push_str(&format!(
                "code: {} ({}), correlation id: {}\n",
                printable(&problem.code),
                problem.status,
                printable(&problem.correlation_id)
            ));
        }
        if let Some(next) = &self.next {
            text.push_str(&format!("next: {}\n", printable(next)));
        }
        text
    }
}

/// A closed pipe (`muster … | head`) is not a failure.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let silent = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self { silent, ..Self::local("the output cannot be written", error) }
    }
}

pub(crate) fn exit_of(status: u16) -> Exit {
    match status {
        401 => Exit::Unauthenticated,
        403 => Exit::Denied,
        404 => Exit::NotFound,
        409 | 412 | 422 | 428 => Exit::Conflict,
        429 => Exit::RateLimited,
        408 | 500.. => Exit::Unavailable,
        400..500 => Exit::Invalid,
        _ => Exit::Failed,
    }
}

/// Converts a location in a request to the argument that a user typed for it.
fn flag(operation: Option<&Endpoint>, pointer: &str) -> String {
    let name = pointer.strip_prefix("query/").or_else(|| pointer.strip_prefix('/'));
    let Some(name) = name.filter(|name| !name.is_empty()) else { return pointer.to_owned() };
    let (field, inside) = name.split_once('/').map_or((name, None), |(field, rest)| (field, Some(rest)));
    let typed = operation.filter(|_| pointer.starts_with('/')).and_then(|it| typed_for(it, field));
    match (typed, inside) {
        (Some(typed), None) => typed,
        // The position in a list is that of the argument among its equals.
        (Some(typed), Some(inside)) if inside.starts_with(|first: char| first.is_ascii_digit()) => typed,
        (Some(typed), Some(inside)) => format!("{typed} (/{inside})"),
        (None, None) => format!("--{}", kebab(field)),
        (None, Some(_)) => pointer.to_owned(),
    }
}

/// Returns the next step, by code.
fn advice(operation: Option<&Endpoint>, problem: &Problem) -> Option<String> {
    let words = operation.map(Words::of);
    let list = || {
        let noun = absent(&problem.detail).or_else(|| what_to_list(operation));
        noun.map(|noun| format!("`muster {noun} list` shows what exists"))
    };
    let permission = operation.and_then(|operation| operation.permission.as_deref());
    let takes = |name: &str| {
        operation.is_some_and(|operation| operation.query_params.iter().any(|field| field.name == name))
    };
    match problem.code.as_str() {
        "unauthenticated" => {
            Some("log in with `muster login`, or name a token with --token-file or MUSTER_TOKEN".to_owned())
        }
        // The missing entitlement is a different problem than an unknown app.
        "permission_denied" if problem.detail.contains("is not entitled") => Some(
            "`muster entitlement grant APP --dry-run` lists the requested permissions; consent to them, then repeat the command"
                .to_owned(),
        ),
        "incompatible" => {
            Some("`muster app compatibility APP` shows where it fits, and the smallest change that would make it fit".to_owned())
        }
        "permission_denied" => Some(match permission {
            Some(permission) => format!(
                "`muster can-i {permission}` explains it; an admin of the project grants it with `muster role-binding create`"
            ),
            None => "`muster whoami` shows your identity".to_owned(),
        }),
        "not_found" => list(),
        "name_taken" => {
            let noun = words.and_then(|words| words.noun);
            noun.map(|noun| format!("choose another name; `muster {noun} list` shows what exists"))
        }
        "ambiguous_name" => Some("be specific: use an id, or a project as TENANT.NAME".to_owned()),
        // A cascade does not remove live resources either, and the detail names the command that does.
        "not_empty" if problem.detail.contains("no cascade removes") => None,
        "not_empty" if takes("cascade") => Some("add --cascade to remove its contents as well".to_owned()),
        "version_mismatch" => {
            Some("another request changed it meanwhile: check it, then repeat the command".to_owned())
        }
        "idempotency_key_reused" => Some("choose another --idempotency-key, or leave it out".to_owned()),
        "invalid_state" if operation.is_some_and(|operation| operation.id == "artifact_promote") => Some(
            "`muster artifact references` shows its state; `muster artifact sign` signs it, `muster artifact smoke` tests it, `muster trust-policy` shows the project's rules"
                .to_owned(),
        ),
        "quota_exceeded" => Some(
            "`muster quota` shows the project's limits, `muster capacity` the free capacity"
                .to_owned(),
        ),
        "rate_limited" => Some(match problem.retry_after {
            Some(seconds) => format!("wait {seconds} s and try again"),
            None => "wait and try again".to_owned(),
        }),
        "invalid_request" | "malformed_request" => {
            words.map(|words| format!("`muster {} --help` shows its parameters", words.path().join(" ")))
        }
        "host_not_allowed" => {
            Some("use a host name that the server accepts, or add this one to its settings".to_owned())
        }
        "internal" | "unavailable" | "request_timeout" => {
            Some("try again; if it keeps failing, give the correlation id to the platform's operators".to_owned())
        }
        _ => None,
    }
}

/// Returns the noun that the server did not find. It may come from a flag (`--allocation`), which the endpoint does not
/// tell. An unexpected wording only costs the more specific advice.
fn absent(detail: &str) -> Option<String> {
    let (noun, _) = detail.split_once(" not found, or no access")?;
    let noun = noun.to_lowercase().replace(' ', "-");
    is_listed(&noun).then_some(noun)
}

/// Returns the noun to list when something was not found: the resource's own, or its parent's if the resource was listed
/// or created.
fn what_to_list(operation: Option<&Endpoint>) -> Option<String> {
    let operation = operation?;
    let noun = Words::of(operation).noun;
    match operation.path_params.last() {
        Some(place) if is_place(operation, place) => Some(kebab(&place.name)),
        // Some resources are only created and never listed: then their parent was not found.
        Some(place) if noun.as_deref().is_some_and(|noun| !is_listed(noun)) => Some(kebab(&place.name)),
        _ => noun,
    }
}

fn is_listed(noun: &str) -> bool {
    Description::embedded().endpoint(&format!("{}_list", noun.replace('-', "_"))).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str, id: &str) -> Failure {
        let problem = json!({"status": status, "code": code, "detail": "no\u{1b}[2J", "correlation_id": "c0ffee",
                             "errors": [{"pointer": "/display_name", "detail": "too long"}]});
        let problem: Problem = serde_json::from_value(problem).unwrap();
        Failure::call(Description::embedded().endpoint(id), Error::Problem(Box::new(problem)))
    }

    #[test]
    fn tls_at_a_plain_port_gets_its_own_advice() {
        let cause = "received corrupt message of type InvalidContentType".to_owned();
        let unreachable = |cause| Error::Unreachable { server: "https://m.example".to_owned(), cause };
        let next = |cause| Failure::call(None, unreachable(cause)).next.unwrap_or_default();
        assert!(next(cause).contains("use http://"));
        assert!(next("connection refused".to_owned()).contains("is it running?"));
    }

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = [
            (400, 7),
            (401, 3),
            (403, 4),
            (404, 5),
            (405, 7),
            (408, 9),
            (409, 6),
            (412, 6),
            (413, 7),
            (421, 7),
            (422, 6),
            (428, 6),
            (429, 8),
            (500, 9),
            (503, 9),
            (507, 9),
        ];
        for (status, code) in codes {
            assert_eq!(exit_of(status) as u8, code, "{status}");
        }
        let nobody = Error::Unreachable { server: "http://x".to_owned(), cause: "refused".to_owned() };
        assert_eq!(Failure::call(None, nobody).exit as u8, 9);
    }

    #[test]
    fn every_exit_code_stands_in_the_reference() {
        let page = include_str!("../../../../docs/reference/cli.md");
        let rows =
            page.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()?.parse::<u8>().ok());
        // The last is the status of `muster exec` when the command's own is unavailable.
        let ours = (0..=Exit::WaitTimedOut as u8).chain([Exit::Interrupted as u8, 255]);
        assert_eq!(rows.collect::<Vec<_>>(), ours.collect::<Vec<_>>());
    }

    #[test]
    fn an_error_ends_with_what_to_do_next() {
        let text = refused(403, "permission_denied", "project_create").as_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "error: no�[2J");
        assert_eq!(lines[1], "  --display-name: too long");
        assert_eq!(lines[2], "code: permission_denied (403), correlation id: c0ffee");
        assert!(lines[3].starts_with("next: `muster can-i project.create`"), "{text}");
        assert!(
            refused(404, "not_found", "service_account_get")
                .as_text()
                .contains("`muster service-account list`")
        );
        assert!(refused(404, "not_found", "stream_create").as_text().contains("`muster cell list`"));
        assert!(
            refused(404, "not_found", "service_account_list").as_text().contains("`muster project list`")
        );
        assert!(refused(409, "name_taken", "project_create").as_text().contains("`muster project list`"));
        assert!(refused(409, "not_empty", "tenant_delete").as_text().contains("--cascade"));
        assert!(!refused(409, "not_empty", "user_delete").as_text().contains("--cascade"));
    }

    #[test]
    fn an_error_about_a_field_names_the_argument_that_was_typed() {
        let said = |id: &str, pointer: &str| {
            let problem = json!({"status": 400, "code": "invalid_request", "detail": format!("{pointer}: no"),
                                 "errors": [{"pointer": pointer, "detail": "no"}]});
            let problem: Problem = serde_json::from_value(problem).unwrap();
            let operation = Description::embedded().endpoint(id);
            assert!(operation.is_some(), "{id}");
            let text = Failure::call(operation, Error::Problem(Box::new(problem))).as_text();
            text.lines().next().unwrap_or_default().to_owned()
        };
        let cases = [
            ("allocation_create", "/wait_until", "--wait-until"),
            ("allocation_create", "/name", "NAME"),
            ("allocation_create", "/labels", "--label"),
            ("instance_scale", "/components/0/component_key", "--set"),
            ("instance_scale", "/ready_until", "--ready-until"),
            ("instance_create", "/config/rate", "--config (/rate)"),
            ("instance_create", "/app", "APP"),
            ("member_remove", "/members/1", "MEMBER"),
            ("member_add", "/component_key", "COMPONENT"),
            ("cell_create", "/spec/ingress/0/node_port", "--spec (/ingress/0/node_port)"),
            ("user_create", "/password", "--password-file"),
            ("allocation_list", "query/page_size", "--page-size"),
            // No flag leads there: only a whole body can contain it.
            ("allocation_create", "/unheard/of", "/unheard/of"),
        ];
        for (id, pointer, typed) in cases {
            assert_eq!(said(id, pointer), format!("error: {typed}: no"), "{id} {pointer}");
        }
    }

    #[test]
    fn a_cascade_is_not_advised_for_what_no_cascade_removes() {
        let detail = "the tenant holds 1 live allocation, which no cascade removes: release them first";
        let problem = json!({"status": 409, "code": "not_empty", "detail": detail, "correlation_id": "c"});
        let problem: Problem = serde_json::from_value(problem).unwrap();
        let operation = Description::embedded().endpoint("tenant_delete");
        let said = Failure::call(operation, Error::Problem(Box::new(problem))).as_text();
        assert!(said.contains("release them first") && !said.contains("--cascade"), "{said}");
    }

    #[test]
    fn a_project_that_is_not_entitled_is_led_to_the_consent() {
        let detail = "the project is not entitled to launch notebook";
        let problem = json!({"status": 403, "code": "permission_denied", "detail": detail});
        let problem: Problem = serde_json::from_value(problem).unwrap();
        let operation = Description::embedded().endpoint("instance_create");
        let next = Failure::call(operation, Error::Problem(Box::new(problem))).next.unwrap();
        assert!(next.starts_with("`muster entitlement grant APP --dry-run`"), "{next}");
        assert!(
            refused(409, "incompatible", "instance_create").as_text().contains("muster app compatibility")
        );
    }

    #[test]
    fn not_found_error_suggests_listing_the_missing_noun_even_from_a_flag() {
        let next = |noun: &str| {
            let detail = format!("{noun} not found, or no access");
            let problem = json!({"status": 404, "code": "not_found", "detail": detail});
            let problem: Problem = serde_json::from_value(problem).unwrap();
            let operation = Description::embedded().endpoint("cell_create");
            Failure::call(operation, Error::Problem(Box::new(problem))).next.unwrap()
        };
        let listed = [
            ("allocation", "allocation"),
            ("project", "project"),
            ("service account", "service-account"),
            ("SSH key", "ssh-key"),
            // For resources without a list, the parent is shown.
            ("stream", "project"),
        ];
        for (noun, list) in listed {
            assert_eq!(next(noun), format!("`muster {list} list` shows what exists"));
        }
    }

    #[test]
    fn for_scripts_the_problem_is_given_as_it_came() {
        let document: Value =
            serde_json::from_str(&refused(409, "name_taken", "tenant_create").as_json()).unwrap();
        assert_eq!((&document["code"], &document["status"]), (&json!("name_taken"), &json!(409)));
        let document: Value = serde_json::from_str(&Failure::usage("no").as_json()).unwrap();
        assert_eq!(document["code"], "usage");
    }
}
