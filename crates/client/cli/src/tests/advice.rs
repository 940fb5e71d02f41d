//! Every command that the product suggests must parse: collected from the source of all crates, parsed by this command
//! line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::shell_words;
use crate::command;

/// Server and agent commands of the binary, which have their own parser.
const NOT_OURS: [&str; 6] = ["agent", "server", "up", "down", "is", "cli"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the string literals of a source file, without those in comments and tests.
fn literals(source: &str) -> Vec<String> {
    let product = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = product.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    let mut letters = code.chars().peekable();
    let mut open: Option<String> = None;
    while let Some(letter) = letters.next() {
        match (letter, &mut open) {
            ('\\', Some(text)) => match letters.next() {
                // A line continuation: skip the leading blanks of the next line.
                Some('\n') => while letters.next_if(|next| next.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            ('"', Some(_)) => found.extend(open.take()),
            ('"', None) => open = Some(String::new()),
            // A character literal may be a quotation mark.
            ('\'', None) => drop(letters.next_if_eq(&'"')),
            (letter, Some(text)) => text.push(letter),
            _ => {}
        }
    }
    found
}

/// Returns the commands in a text: to the closing backtick, or else to the end of the clause.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("muster ") {
        let quoted = text[..at].ends_with('`');
        let stands_alone = text[..at].is_empty() || quoted || text[..at].ends_with([' ', '\n', '}']);
        if !stands_alone {
            continue;
        }
        let rest = &text[at..];
        let end = match quoted {
            true => rest.find('`'),
            false => ["; ", ", ", "\n", "  ", " (", " shows ", " says ", " #", " | "]
                .iter()
                .filter_map(|mark| rest.find(mark))
                .min(),
        };
        found.push(rest[..end.unwrap_or(rest.len())].trim().to_owned());
    }
    found
}

/// Fills in placeholders as a person would.
fn filled(command: &str) -> String {
    let mut typed = String::new();
    let mut depth = 0;
    for letter in command.chars() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                typed.push('x');
            }
            _ if depth > 0 => {}
            '…' => typed.push('x'),
            other => typed.push(other),
        }
    }
    typed.replace("--action x", "--action retry")
}

#[test]
fn every_command_that_is_advised_can_be_typed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut files = Vec::new();
    sources(crates, &mut files);
    let whole = command();
    let (mut typed, mut faults, mut scanned) = (0, Vec::new(), BTreeSet::new());
    for file in files {
        let place = file.strip_prefix(crates).unwrap().display().to_string();
        let is_product = place.contains("/src/") && !place.contains("tests") && !place.starts_with("dev/");
        if !is_product {
            continue;
        }
        scanned.insert(place.split('/').next().unwrap_or_default().to_owned());
        for command in
            literals(&std::fs::read_to_string(&file).unwrap()).iter().flat_map(|text| commands(text))
        {
            let words = shell_words(&filled(&command));
            let is_ours =
                words.get(1).is_some_and(|word| word.starts_with(|first: char| first.is_ascii_lowercase()));
            if !is_ours || NOT_OURS.contains(&words[1].as_str()) || words.len() < 3 {
                continue;
            }
            // The noun or flag is chosen at run time; its variants are tested there.
            let is_open = command.split_whitespace().take(3).any(|word| word.starts_with('{'))
                || command.contains("--{");
            if is_open {
                continue;
            }
            typed += 1;
            if words
                .windows(2)
                .any(|pair| pair[0].starts_with("--") && matches!(pair[1].as_str(), "true" | "false"))
            {
                faults.push(format!("{place}: `{command}`: a truth stands behind `=`, else it is a name"));
            }
            match whole.clone().try_get_matches_from(&words) {
                Ok(_) => {}
                // `muster cell destroy` alone refers to the command and leaves the rest to its help; so does a flag
                // without its value.
                Err(error) if error.kind() == ErrorKind::MissingRequiredArgument && words.len() == 3 => {}
                Err(error)
                    if error.kind() == ErrorKind::InvalidValue
                        && words.last().is_some_and(|last| last.starts_with("--")) => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                    ) => {}
                Err(error) => faults.push(format!("{place}: `{command}`: {}", error.kind())),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(typed > 200, "only {typed} commands were found");
    let scanned: Vec<&str> = scanned.iter().map(String::as_str).collect();
    assert_eq!(scanned, ["client", "core", "muster", "node", "server"]);
}

#[test]
fn a_flag_that_takes_its_value_with_a_sign_is_advised_so() {
    // `--protected false` would protect the instance called false.
    assert!(
        command().try_get_matches_from("muster instance update lab --protected=false".split(' ')).is_ok()
    );
    assert!(
        command().try_get_matches_from("muster instance update lab --protected false".split(' ')).is_err()
    );
}
