//! The checks that verify states: where they run, what they run, and which directories they can read.

use std::collections::BTreeSet;

use super::components::environment;
use super::names::{fields, known};
use crate::fault::{At, Fault};
use crate::path::{program_fault, sees_fault};
use crate::variables::variables;

/// Maximum memory of a compiled expression.
const EXPRESSION_BYTES: usize = 256 * 1024;
/// Maximum number of components, and of checks for a state, in the schema; expressions beyond that are not compiled.
const MOST_COMPONENTS: usize = 32;
const MOST_CHECKS: usize = 16;
/// Maximum retry time of a check.
const LONGEST_WITHIN: i64 = 24 * 60 * 60;

pub(super) fn all(root: &At<'_>, faults: &mut Vec<Fault>) {
    let launchable = root.get("artifact_kind").text() == Some("launchable");
    let keys = known(&fields(&root.get("components"), "key"));
    for component in root.get("components").items().into_iter().take(MOST_COMPONENTS) {
        let witnesses = component.get("witnesses");
        for state in ["active", "drained", "removed"] {
            for check in witnesses.get(state).items().into_iter().take(MOST_CHECKS) {
                place(&check.get("in"), launchable, keys.as_ref(), faults);
                exec(&check.get("exec"), faults);
                expect(&check.get("expect").get("stdout"), faults);
                within(&check.get("within"), faults);
                sees(&check.get("sees"), faults);
                environment(&check.get("environment"), faults);
            }
        }
    }
}

fn sees(sees: &At<'_>, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for place in sees.items() {
        let Some(path) = place.text() else { continue };
        let twice = || (!seen.insert(path)).then(|| "it is listed twice: name it once".to_owned());
        if let Some(why) = sees_fault(path).or_else(twice) {
            faults.push(Fault::error(place.path, "sees", why));
        }
    }
}

fn place(place: &At<'_>, launchable: bool, keys: Option<&BTreeSet<&str>>, faults: &mut Vec<Fault>) {
    let Some(key) = place.text().filter(|key| *key != "self") else { return };
    if launchable {
        let says = "a launchable app's check runs in the member itself: write self, or leave it out";
        faults.push(Fault::error(place.path.clone(), "launchable_self_only", says));
    } else if keys.is_some_and(|keys| !keys.contains(key)) {
        let says = "it is self or the key of a component, and no component has this key";
        faults.push(Fault::error(place.path.clone(), "unknown_component", says));
    }
}

fn exec(exec: &At<'_>, faults: &mut Vec<Fault>) {
    for (index, word) in exec.items().into_iter().enumerate() {
        let Some(text) = word.text() else { continue };
        match variables(text) {
            Err(why) => faults.push(Fault::error(word.path.clone(), "variable", why)),
            // The program is fixed with the release.
            Ok(used) if index == 0 && !used.is_empty() => {
                let says = "the program itself cannot contain variables: pass them as arguments";
                faults.push(Fault::error(word.path.clone(), "variable", says));
            }
            Ok(_) => {}
        }
        if text.contains('\0') {
            let says = "an argument of a command must have no NUL: remove it";
            faults.push(Fault::error(word.path.clone(), "program_path", says));
        } else if index == 0
            && let Some(why) = program_fault(text)
        {
            faults.push(Fault::error(word.path, "program_path", why));
        }
    }
}

fn expect(stdout: &At<'_>, faults: &mut Vec<Fault>) {
    let Some(expression) = stdout.text() else { return };
    let compiled = regex::RegexBuilder::new(expression)
        .size_limit(EXPRESSION_BYTES)
        .dfa_size_limit(EXPRESSION_BYTES)
        .build();
    if let Err(error) = compiled {
        let why = match error {
            regex::Error::CompiledTooBig(_) => {
                "it is too large once compiled: use fewer repetitions".to_owned()
            }
            // The parser prints a diagram of several lines; its last line is the message.
            other => {
                other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
            }
        };
        let says = format!("it is not a supported regular expression: {why}; fix it");
        faults.push(Fault::error(stdout.path.clone(), "expression", says));
    }
}

fn within(within: &At<'_>, faults: &mut Vec<Fault>) {
    // The schema checks the format.
    let seconds = within.text().and_then(crate::check::seconds);
    if seconds.is_some_and(|seconds| seconds > LONGEST_WITHIN) {
        let says = "a check is retried for at most 24h: shorten it";
        faults.push(Fault::error(within.path.clone(), "within", says));
    }
}
