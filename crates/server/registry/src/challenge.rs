//! The challenge that makes a client fetch a token, and the scopes it requests.
//!
//! A request without a token is answered with a challenge that names the token endpoint and the required scope; the client
//! requests a token there with `?scope=repository:NAME:pull,push`, possibly for several scopes. The request is only a wish:
//! unknown parts are dropped and not rejected, as the protocol requires, and the caller decides what to grant.

use std::collections::BTreeSet;
use std::fmt;

use crate::path::Name;

/// Maximum number of scopes read from one request.
pub const MOST_SCOPES: usize = 32;
/// Maximum length of a scope.
const LONGEST_SCOPE: usize = 512;

/// An action on a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Read from it.
    Pull,
    /// Write to it.
    Push,
    /// Remove from it.
    Delete,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 3] = [Self::Pull, Self::Push, Self::Delete];

    /// Returns the name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Delete => "delete",
        }
    }
}

/// A set of actions on a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The repository.
    pub name: Name,
    /// The actions; never empty when parsed from a request.
    pub actions: BTreeSet<Action>,
}

impl Scope {
    /// Creates the scope of one repository.
    pub fn new(name: Name, actions: impl IntoIterator<Item = Action>) -> Self {
        Self { name, actions: actions.into_iter().collect() }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let actions: Vec<_> = self.actions.iter().map(|action| action.word()).collect();
        write!(f, "repository:{}:{}", self.name, actions.join(","))
    }
}

/// Parses all decoded `scope` parameters of a request. One parameter may hold several scopes separated by spaces; scopes for
/// the same repository are merged.
pub fn scopes<'a>(parameters: impl IntoIterator<Item = &'a str>) -> Vec<Scope> {
    let mut scopes: Vec<Scope> = Vec::new();
    let words = parameters.into_iter().flat_map(str::split_ascii_whitespace);
    for scope in words.take(MOST_SCOPES).filter_map(scope) {
        match scopes.iter_mut().find(|known| known.name == scope.name) {
            Some(known) => known.actions.extend(scope.actions),
            None => scopes.push(scope),
        }
    }
    scopes
}

/// Parses one scope, `repository:NAME:ACTIONS`; returns `None` for other resource types or if no action is known.
fn scope(text: &str) -> Option<Scope> {
    if text.len() > LONGEST_SCOPE {
        return None;
    }
    let (name, actions) = text.strip_prefix("repository:")?.rsplit_once(':')?;
    let mut wanted = BTreeSet::new();
    for word in actions.split(',') {
        match word {
            "*" => wanted.extend(Action::ALL),
            word => wanted.extend(Action::ALL.into_iter().find(|action| action.word() == word)),
        }
    }
    if wanted.is_empty() { None } else { Some(Scope { name: name.parse().ok()?, actions: wanted }) }
}

/// The problem with a presented token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It is unknown or expired.
    InvalidToken,
    /// It is valid, but not for this request.
    InsufficientScope,
}

/// The value of `WWW-Authenticate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the token endpoint.
    pub realm: String,
    /// The registry's name.
    pub service: String,
    /// The scopes for which a token is needed.
    pub scopes: Vec<Scope>,
    /// The problem with the presented token, if any.
    pub problem: Option<Problem>,
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bearer realm={},service={}", quoted(&self.realm), quoted(&self.service))?;
        if !self.scopes.is_empty() {
            let scopes: Vec<_> = self.scopes.iter().map(Scope::to_string).collect();
            write!(f, ",scope={}", quoted(&scopes.join(" ")))?;
        }
        match self.problem {
            Some(Problem::InvalidToken) => f.write_str(",error=\"invalid_token\""),
            Some(Problem::InsufficientScope) => f.write_str(",error=\"insufficient_scope\""),
            None => Ok(()),
        }
    }
}

/// Formats an HTTP quoted string. Characters that are not allowed in a header are dropped: a split header is worse than one
/// that leads nowhere.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ') {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(parameters: &[&str]) -> Vec<String> {
        scopes(parameters.iter().copied()).iter().map(Scope::to_string).collect()
    }

    #[test]
    fn scopes_are_read_and_what_is_unknown_is_left_away() {
        let cases: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["repository:a/b:pull"], &["repository:a/b:pull"]),
            (&["repository:a:push,pull"], &["repository:a:pull,push"]),
            (&["repository:a:pull repository:b:push"], &["repository:a:pull", "repository:b:push"]),
            (
                &["repository:a:pull", "repository:b:*"],
                &["repository:a:pull", "repository:b:pull,push,delete"],
            ),
            (&["repository:a:pull", "repository:a:push"], &["repository:a:pull,push"]),
            (&["repository:a:pull,fly"], &["repository:a:pull"]),
            (&["repository:a:fly", "repository:a:", "repository:a", "repository:", "", ":::"], &[]),
            (&["registry:catalog:*", "repository(plugin):a:pull"], &[]),
            (&["repository:A:pull", "repository:../x:pull", "repository:host:5000/a:pull"], &[]),
        ];
        for (parameters, expected) in cases {
            assert_eq!(texts(parameters), *expected, "{parameters:?}");
        }
    }

    #[test]
    fn only_so_many_scopes_are_looked_at() {
        let many: Vec<String> = (0..100).map(|number| format!("repository:a{number}:pull")).collect();
        assert_eq!(texts(&[&many.join(" ")]).len(), MOST_SCOPES);
        let long = format!("repository:a:{}pull", "x,".repeat(LONGEST_SCOPE));
        assert_eq!(texts(&[&long]), Vec::<String>::new());
    }

    #[test]
    fn a_challenge_is_written_as_clients_read_it() {
        let scope = Scope::new("a/b".parse().unwrap(), [Action::Push, Action::Pull]);
        let challenge = Challenge {
            realm: "https://muster.example/v2/token".to_owned(),
            service: "muster.example".to_owned(),
            scopes: vec![scope],
            problem: Some(Problem::InvalidToken),
        };
        let expected = "Bearer realm=\"https://muster.example/v2/token\",service=\"muster.example\",\
                        scope=\"repository:a/b:pull,push\",error=\"invalid_token\"";
        assert_eq!(challenge.to_string(), expected);
        let plain = Challenge { scopes: vec![], problem: None, ..challenge };
        let expected = "Bearer realm=\"https://muster.example/v2/token\",service=\"muster.example\"";
        assert_eq!(plain.to_string(), expected);
    }

    proptest! {
        #[test]
        fn any_scope_is_survived_and_reads_itself_again(text in "(repository:)?[a-z:/,* ]{0,60}|.{0,200}") {
            let found = scopes([text.as_str()]);
            let written: Vec<String> = found.iter().map(Scope::to_string).collect();
            prop_assert_eq!(scopes(written.iter().map(String::as_str)), found);
        }

        #[test]
        fn a_challenge_is_always_one_header(realm in "\\PC{0,40}|[\r\n\"\\\\a]{0,20}", service in ".{0,20}") {
            let challenge = Challenge { realm, service, scopes: vec![], problem: None }.to_string();
            prop_assert!(challenge.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            let open = challenge.replace("\\\\", "").replace("\\\"", "");
            prop_assert_eq!(open.matches('"').count(), 4);
        }
    }
}
