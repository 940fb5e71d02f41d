//! From the name of an operation to the words of a command: `service_account_create` is `muster service-account create`.

use muster_sdk::describe::{Description, Operation};

/// Operations that are words of their own, without a noun.
const ALONE: [(&str, &str); 2] = [("whoami", "whoami"), ("can_i", "can-i")];

/// Operations that a command written by hand speaks for, because they are streams, logins or more than one call.
pub(crate) const BY_HAND: [(&str, &[&str]); 8] = [
    ("audit_export", &["audit", "export"]),
    ("event_stream", &["events"]),
    ("session_create", &["login"]),
    ("session_delete", &["login"]),
    ("status_get", &["status"]),
    ("stream_create", &["exec"]),
    ("stream_join", &["exec"]),
    ("stream_logs", &["logs"]),
];

/// The noun (if there is one) and the verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) noun: Option<String>,
    pub(crate) verb: String,
}

impl Words {
    /// The permission knows where the noun ends (`user.set_password`); where there is none, the verb is the last word.
    pub(crate) fn of(operation: &Operation) -> Self {
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

    /// As they are typed.
    pub(crate) fn path(&self) -> Vec<&str> {
        self.noun.as_deref().into_iter().chain([self.verb.as_str()]).collect()
    }
}

/// The operations that get a command of their own, with its words.
pub(crate) fn generated(description: &Description) -> impl Iterator<Item = (&Operation, Words)> {
    let by_hand = |operation: &&Operation| !BY_HAND.iter().any(|(id, _)| *id == operation.id);
    description.operations.iter().filter(by_hand).map(|operation| (operation, Words::of(operation)))
}

/// The operation that was meant by what was typed. A noun alone means its `get`, where that needs no more words.
pub(crate) fn meant<'d>(description: &'d Description, typed: &[&str]) -> Option<&'d Operation> {
    let path: Vec<&str> = match typed {
        [noun] if description.operation(&format!("{}_get", noun.replace('-', "_"))).is_some() => {
            vec![noun, "get"]
        }
        other => other.to_vec(),
    };
    generated(description).find(|(_, words)| words.path() == path).map(|(operation, _)| operation)
}

/// `snake_case` as it is typed on a command line.
pub(crate) fn kebab(word: &str) -> String {
    word.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_are_told_apart() {
        let typed = |id: &str| Words::of(Description::embedded().operation(id).unwrap()).path().join(" ");
        assert_eq!(typed("service_account_create"), "service-account create");
        assert_eq!(typed("user_set_password"), "user set-password");
        assert_eq!(typed("tenant_rotate_key"), "tenant rotate-key");
        assert_eq!(typed("webhook_deliveries"), "webhook deliveries");
        assert_eq!(typed("whoami"), "whoami");
        assert_eq!(typed("can_i"), "can-i");
    }
}
