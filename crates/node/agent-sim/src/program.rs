//! Programs of a simulated cell: few, each with output that depends on the cell.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_wire::task::Ran;

/// Maximum output of a program.
const MOST: usize = 16 * 1024;
/// Exit status after a kill.
const KILLED: i32 = 128 + 9;

/// Environment of a program.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) hostname: String,
    pub(crate) files: BTreeMap<String, String>,
    /// Files written over programs: they run instead.
    pub(crate) forged: BTreeMap<String, String>,
}

/// A program to run.
#[derive(Debug)]
pub(crate) struct Program<'p> {
    pub(crate) command: &'p [String],
    pub(crate) stdin: &'p str,
    pub(crate) timeout_seconds: u32,
    /// False for a check, which changes nothing.
    pub(crate) may_write: bool,
}

/// Every available program.
const PROGRAMS: &[&str] =
    &["/bin/cat", "/bin/false", "/bin/hostname", "/bin/sleep", "/bin/test", "/bin/true", "/bin/write"];

/// Runs a program, and returns its result and the file it wrote.
pub(crate) fn run(view: &View, program: &Program<'_>) -> (Ran, Option<(String, String)>) {
    let words: Vec<&str> = program.command.iter().map(String::as_str).collect();
    if let Some(forged) = words.first().and_then(|path| view.forged.get(*path)) {
        return (script(forged), None);
    }
    let said = |stdout: &str| ended(0, stdout.to_owned(), String::new());
    let failed = |exit, why: String| ended(exit, String::new(), why);
    let ran = match words[..] {
        ["/bin/true", ..] => said(""),
        ["/bin/false", ..] => failed(1, String::new()),
        ["/bin/hostname"] => said(&format!("{}\n", view.hostname)),
        ["/bin/cat"] => said(program.stdin),
        ["/bin/cat", path] => match view.files.get(path) {
            Some(text) => said(text),
            None => failed(1, format!("cat: {path}: No such file or directory\n")),
        },
        ["/bin/test", "-e", path] => {
            let beneath = format!("{}/", path.trim_end_matches('/'));
            let is_there = view.files.contains_key(path)
                || view.files.keys().any(|other| other.starts_with(&beneath))
                || PROGRAMS.contains(&path);
            failed(i32::from(!is_there), String::new())
        }
        ["/bin/sleep", _] => match seconds(&words) {
            Some(seconds) if seconds > Duration::from_secs(program.timeout_seconds.into()) => {
                Ran { timed_out: true, ..failed(KILLED, String::new()) }
            }
            Some(_) => said(""),
            None => failed(1, "sleep: invalid time interval\n".to_owned()),
        },
        ["/bin/write", path, text] if program.may_write && path.starts_with('/') => {
            return (said(""), Some((path.to_owned(), text.to_owned())));
        }
        _ => failed(127, "no such program\n".to_owned()),
    };
    (ran, None)
}

/// Runs a file written over a program: a script runs its lines, as far as they are `echo WORDS` and `exit NUMBER`; any other
/// file prints its content.
fn script(text: &str) -> Ran {
    if !text.starts_with("#!") {
        return ended(0, text.to_owned(), String::new());
    }
    let mut stdout = String::new();
    for line in text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once(' ') {
            Some(("echo", words)) => stdout.push_str(&format!("{words}\n")),
            Some(("exit", number)) if number.parse::<u8>().is_ok() => {
                return ended(number.parse().unwrap_or_default(), stdout, String::new());
            }
            _ => return ended(127, stdout, format!("{line}: not found\n")),
        }
    }
    ended(0, stdout, String::new())
}

/// Returns the run time of a command.
pub(crate) fn duration(command: &[String], timeout_seconds: u32) -> Duration {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    seconds(&words).unwrap_or_default().min(Duration::from_secs(timeout_seconds.into()))
}

fn seconds(words: &[&str]) -> Option<Duration> {
    let ["/bin/sleep", seconds] = words else { return None };
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

fn ended(exit: i32, stdout: String, stderr: String) -> Ran {
    let (stdout, stderr) = (last(stdout), last(stderr));
    Ran { exit, truncated: stdout.1 || stderr.1, stdout: stdout.0, stderr: stderr.0, timed_out: false }
}

/// Returns the end of a text, and whether it was truncated.
fn last(text: String) -> (String, bool) {
    let mut from = text.len().saturating_sub(MOST);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    (text[from..].to_owned(), from > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::{Program, View, duration, run};

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn each_program_ends_as_its_name_says() {
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let view = View {
            hostname: "m-1".into(),
            files: BTreeMap::from([file("/etc/a", "text"), file("/etc/big", &"x".repeat(20_000))]),
            forged: BTreeMap::new(),
        };
        let cases = [
            ("/bin/true", 0, ""),
            ("/bin/false", 1, ""),
            ("/bin/hostname", 0, "m-1\n"),
            ("/bin/cat", 0, "in"),
            ("/bin/cat /etc/a", 0, "text"),
            ("/bin/cat /etc/b", 1, ""),
            ("/bin/test -e /etc", 0, ""),
            ("/bin/test -e /et", 1, ""),
            ("/bin/test -e /bin/cat", 0, ""),
            ("/bin/sleep 0.5", 0, ""),
            ("/bin/sleep -1", 1, ""),
            ("/bin/sh -c true", 127, ""),
            ("true", 127, ""),
        ];
        for (line, exit, stdout) in cases {
            let command = words(line);
            let program = Program { command: &command, stdin: "in", timeout_seconds: 1, may_write: false };
            let (ran, written) = run(&view, &program);
            assert_eq!((ran.exit, ran.stdout.as_str(), written), (exit, stdout, None), "{line}");
        }
        let run = |line: &str, may_write| {
            let command = words(line);
            run(&view, &Program { command: &command, stdin: "", timeout_seconds: 1, may_write })
        };
        let (slow, _) = run("/bin/sleep 60", true);
        assert_eq!((slow.exit, slow.timed_out), (137, true));
        assert_eq!(duration(&words("/bin/sleep 60"), 1), Duration::from_secs(1));
        let (big, _) = run("/bin/cat /etc/big", true);
        assert_eq!((big.stdout.len(), big.truncated), (16 * 1024, true));
        assert_eq!(run("/bin/write /a b", true).1, Some(file("/a", "b")));
        assert_eq!(run("/bin/write /a b", false).0.exit, 127);
    }
}
