//! The whole command line: hand-written commands, and a command for every other endpoint of the description.

use clap::Command;
use muster_sdk::describe::{Description, Endpoint};

use crate::contract::Contract;
use crate::naming::with_name;
use crate::operation::started;
use crate::options::with_options;
use crate::words::{Words, generated};
use crate::{by_hand, examples, flags, member, node};

/// Returns the `muster` command without the server and agent commands.
pub(crate) fn command(description: &Description) -> Command {
    let mut nouns: Vec<(String, Vec<Command>)> = Vec::new();
    let mut alone = Vec::new();
    for (operation, words) in generated(description) {
        let made = generate(operation, &words);
        match words.noun {
            None => alone.push(made),
            Some(noun) => match nouns.iter_mut().find(|(known, _)| *known == noun) {
                Some((_, verbs)) => verbs.push(made),
                None => nouns.push((noun, vec![made])),
            },
        }
    }
    for (noun, verbs) in &mut nouns {
        verbs.extend(by_hand::verbs(noun));
    }
    let root = Command::new("muster")
        .about("The app platform of a GPU cloud")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(
            "`muster NOUN VERB --help` describes each. Exit codes and settings: docs/reference/cli.md",
        );
    with_options(root)
        .subcommands(by_hand::alone())
        .subcommands(alone)
        .subcommands(nouns.into_iter().map(|(noun, verbs)| noun_command(noun, verbs)))
}

/// Returns a noun with its verbs. If its `get` needs no arguments, the noun works on its own: `muster capacity`.
fn noun_command(noun: String, verbs: Vec<Command>) -> Command {
    let words = verbs.iter().map(|verb| verb.get_name().to_owned()).collect::<Vec<_>>().join(", ");
    let shows = |verb: &&Command| verb.get_name() == "get" && verb.get_positionals().next().is_none();
    let command = match verbs.iter().find(shows).cloned() {
        Some(get) => get.name(noun).args_conflicts_with_subcommands(true),
        None => Command::new(noun).about(words).subcommand_required(true).arg_required_else_help(true),
    };
    command.subcommands(verbs)
}

fn generate(operation: &Endpoint, words: &Words) -> Command {
    let typed = words.path().join(" ");
    let mut command = Command::new(words.verb.clone()).about(operation.summary.clone());
    let mut long = format!("{}.", operation.summary.trim_end_matches('.'));
    if !operation.description.is_empty() {
        long.push_str(&format!("\n\n{}", operation.description));
    }
    if member::may_be_one_word(operation) {
        long.push_str(&format!("\n\n{}", member::RULE));
    }
    if let Some(permission) = &operation.permission {
        long.push_str(&format!("\n\nNeeds the permission {permission}."));
    }
    command = command.long_about(long).args(flags::arguments(operation));
    command = with_name(command, operation, &typed);
    if Contract::embedded().starts(&operation.id) || started::can_wait(&operation.id) {
        command = command.args(started::arguments());
    }
    if operation.id == "node_approve" {
        command = command.arg(node::approve::argument());
    }
    if let Some(examples) = examples::of(&typed) {
        command = command.after_help(examples);
    }
    with_options(command)
}
