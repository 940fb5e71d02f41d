//! Progress display: permanent lines and, on a terminal, a few live lines below that are redrawn.

use std::io::Write;

use crate::failure::Result;
use crate::terminal;

/// Clears the current line.
const CLEAR: &str = "\r\u{1b}[2K";
/// Moves to the line above.
const UP: &str = "\u{1b}[1A";
/// Lines are cut to the window's width with an ellipsis. Wide characters, or a window that shrinks meanwhile, are cut by
/// the terminal, so that each line stays a single one.
const CUT: &str = "\u{1b}[?7l";
const WRAP: &str = "\u{1b}[?7h";

/// Permanent lines, and possibly live ones.
pub(crate) struct Screen<'w> {
    out: &'w mut dyn Write,
    live: bool,
    /// Number of live lines drawn.
    drawn: usize,
}

impl<'w> Screen<'w> {
    /// Creates a display on a terminal (`live`), or anywhere else.
    pub(crate) fn new(out: &'w mut dyn Write, live: bool) -> Self {
        Self { out, live, drawn: 0 }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Prints a permanent line.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.clear()?;
        writeln!(self.out, "{}", text.trim_end())?;
        Ok(self.out.flush()?)
    }

    /// Draws the live lines; does nothing where lines cannot be redrawn.
    pub(crate) fn now(&mut self, lines: &[String]) -> Result<()> {
        if self.live && !lines.is_empty() {
            let erased = self.erased();
            let erased = if erased.is_empty() { CLEAR.to_owned() } else { erased };
            let width = terminal::size().map_or(usize::MAX, |(columns, _)| usize::from(columns));
            let cut: Vec<String> = lines.iter().map(|line| cut(line, width)).collect();
            write!(self.out, "{erased}{CUT}{}{WRAP}", cut.join("\n"))?;
            self.out.flush()?;
            self.drawn = lines.len();
        }
        Ok(())
    }

    /// Removes the live lines.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if self.drawn > 0 {
            let erased = self.erased();
            write!(self.out, "{erased}")?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Returns the sequence that clears the live lines, from the last to the first.
    fn erased(&mut self) -> String {
        let drawn = std::mem::take(&mut self.drawn);
        (0..drawn).map(|line| if line == 0 { CLEAR.to_owned() } else { format!("{UP}{CLEAR}") }).collect()
    }
}

/// Cuts a line to a width, with an ellipsis if something is left out.
fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let shown: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", shown.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_ends_with_an_ellipsis() {
        assert_eq!(cut("at most 14 min 26 s more", 24), "at most 14 min 26 s more");
        assert_eq!(cut("at most 14 min 26 s more", 16), "at most 14 min…");
        assert_eq!(cut("✓✓✓✓", 3), "✓✓…");
        assert_eq!(cut("x", 0), "…");
    }

    #[test]
    fn a_terminal_has_one_line_that_is_written_over_and_a_file_has_none() {
        let drawn = |live: bool| {
            let mut out = Vec::new();
            let mut screen = Screen::new(&mut out, live);
            screen.now(&["first".to_owned()]).unwrap();
            screen.now(&["second".to_owned()]).unwrap();
            screen.line("done").unwrap();
            screen.clear().unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(drawn(false), "done\n");
        let written = drawn(true);
        assert_eq!(written.matches(CLEAR).count(), 3);
        assert!(written.ends_with(&format!("{CLEAR}done\n")), "{written:?}");
    }

    #[test]
    fn several_lines_are_all_taken_back() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, true);
        screen.now(&["whole".to_owned(), "part 1".to_owned(), "part 2".to_owned()]).unwrap();
        screen.now(&["whole".to_owned()]).unwrap();
        screen.clear().unwrap();
        screen.clear().unwrap();
        let written = String::from_utf8(out).unwrap();
        assert!(
            written.contains(&format!("part 1\npart 2{WRAP}{CLEAR}{UP}{CLEAR}{UP}{CLEAR}{CUT}whole")),
            "{written:?}"
        );
        assert!(written.ends_with(&format!("whole{WRAP}{CLEAR}")), "{written:?}");
    }
}
