//! Converts the name of an endpoint to the words of a command: `service_account_create` is `muster service-account
//! create`.

use muster_sdk::describe::{Description, Endpoint};

/// Endpoints without a noun.
const ALONE: [(&str, &str); 2] = [("whoami", "whoami"), ("can_i", "can-i")];

/// Endpoints covered by hand-written commands, because they are streams, logins or more than one call.
pub(crate) const BY_HAND: [(&str, &[&str]); 10] = [
    ("audit_export", &["audit", "export"]),
    ("event_stream", &["events"]),
    ("instance_event_list", &["events"]),
    ("instance_event_stream", &["events"]),
    ("session_create", &["login"]),
    ("session_delete", &["login"]),
    ("status_get", &["status"]),
    ("stream_create", &["exec"]),
    ("stream_join", &["exec"]),
    ("stream_logs", &["logs"]),
];

/// The noun, if any, and the verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) noun: Option<String>,
    pub(crate) verb: String,
}

impl Words {
    /// Derives them from the permission, which separates noun and verb (`user.set_password`); without one, the verb is
    /// the last word.
    pub(crate) fn of(operation: &Endpoint) -> Self {
        if let Some((_, word)) = ALONE.iter().find(|(id, _)| *id == operation.id) {
            return Self { noun: None, verb: (*word).to_owned() };
        }
        let permission =
            operation.permission.as_deref().filter(|name| name.replace('.', "_") == operation.id);
        let split =
            permission.and_then(|name| name.split_once('.')).or_else(|| operation.id.rsplit_once('_'));
        match split {
            Some((noun, verb)) => Self { noun: Some(kebab(noun)), verb: kebab(verb) },
            None => Self { noun: None, verb: kebab(&operation.id) },
        }
    }

    /// Returns the words as typed.
    pub(crate) fn path(&self) -> Vec<&str> {
        self.noun.as_deref().into_iter().chain([self.verb.as_str()]).collect()
    }
}

/// Returns the endpoints with a generated command, and its words.
pub(crate) fn generated(description: &Description) -> impl Iterator<Item = (&Endpoint, Words)> {
    let by_hand = |operation: &&Endpoint| !BY_HAND.iter().any(|(id, _)| *id == operation.id);
    description.endpoints.iter().filter(by_hand).map(|operation| (operation, Words::of(operation)))
}

/// Returns the endpoint of a typed command. A noun alone means its `get`, if that needs no arguments.
pub(crate) fn meant<'d>(description: &'d Description, typed: &[&str]) -> Option<&'d Endpoint> {
    let path: Vec<&str> = match typed {
        [noun] if description.endpoint(&format!("{}_get", noun.replace('-', "_"))).is_some() => {
            vec![noun, "get"]
        }
        other => other.to_vec(),
    };
    generated(description).find(|(_, words)| words.path() == path).map(|(operation, _)| operation)
}

/// Converts `snake_case` for the command line.
pub(crate) fn kebab(word: &str) -> String {
    word.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_are_told_apart() {
        let typed = |id: &str| Words::of(Description::embedded().endpoint(id).unwrap()).path().join(" ");
        assert_eq!(typed("service_account_create"), "service-account create");
        assert_eq!(typed("user_set_password"), "user set-password");
        assert_eq!(typed("tenant_rotate_key"), "tenant rotate-key");
        assert_eq!(typed("webhook_deliveries"), "webhook deliveries");
        assert_eq!(typed("whoami"), "whoami");
        assert_eq!(typed("can_i"), "can-i");
    }
}
