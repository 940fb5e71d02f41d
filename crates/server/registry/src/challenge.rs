//! How a client is told to fetch a token, and for what it asks one.
//!
//! A client that comes without a token is answered with a challenge that names where tokens are had and for which scope; it
//! asks there with `?scope=repository:NAME:pull,push`, perhaps for several. What it asks for is only a wish: unknown parts
//! are left away rather than refused, as the protocol wants, and the caller grants what it grants.

use std::collections::BTreeSet;
use std::fmt;

use crate::path::Name;

/// How many scopes of one request are looked at.
pub const MOST_SCOPES: usize = 32;
/// The longest text of one scope.
const LONGEST_SCOPE: usize = 512;

/// What somebody wants to do with a repository.
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pull, Self::Push, Self::Delete];

    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Delete => "delete",
        }
    }
}

/// What somebody wants to do with which repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The repository.
    pub name: Name,
    /// What for; never empty when it was read from a request.
    pub actions: BTreeSet<Action>,
}

impl Scope {
    /// A scope of one repository.
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

/// Reads all `scope` parameters of a request, decoded. One may hold several, with spaces between them; several for one
/// repository become one.
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

/// One scope, `repository:NAME:ACTIONS`; none if it is about something else or asks for nothing that we know.
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

/// What is wrong with the token that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It is unknown, or its time is over.
    InvalidToken,
    /// It is good, but not for this.
    InsufficientScope,
}

/// The value of `WWW-Authenticate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The address at which tokens are had.
    pub realm: String,
    /// The registry's name.
    pub service: String,
    /// What a token is needed for.
    pub scopes: Vec<Scope>,
    /// What is wrong with the token that came, if one came.
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

/// A quoted string of HTTP. What cannot stand in a header is left away: a header that is split in two is worse than one that
/// leads nowhere.
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
