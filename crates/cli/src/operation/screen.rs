//! Where progress is shown: lines that stay, and on a terminal one line below them that is written over.

use std::io::Write;

use crate::failure::Result;

/// Clears the line that the cursor is in.
const CLEAR: &str = "\r\u{1b}[2K";
/// The terminal cuts off what is too long for a line, so that the line below the others stays one, however narrow the window.
const CUT: &str = "\u{1b}[?7l";
const WRAP: &str = "\u{1b}[?7h";

/// Lines that stay, and perhaps one that does not.
pub(crate) struct Screen<'w> {
    out: &'w mut dyn Write,
    live: bool,
    drawn: bool,
}

impl<'w> Screen<'w> {
    /// On a terminal (`live`), or anywhere else.
    pub(crate) fn new(out: &'w mut dyn Write, live: bool) -> Self {
        Self { out, live, drawn: false }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// A line that stays.
    pub(crate) fn line(&mut self, text: &str) -> Result<()> {
        self.clear()?;
        writeln!(self.out, "{}", text.trim_end())?;
        Ok(self.out.flush()?)
    }

    /// What goes on just now; nothing is shown where lines cannot be taken back.
    pub(crate) fn now(&mut self, text: &str) -> Result<()> {
        if self.live {
            write!(self.out, "{CLEAR}{CUT}{text}{WRAP}")?;
            self.out.flush()?;
            self.drawn = true;
        }
        Ok(())
    }

    /// Takes the last line back.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if std::mem::take(&mut self.drawn) {
            write!(self.out, "{CLEAR}")?;
            self.out.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_one_line_that_is_written_over_and_a_file_has_none() {
        let drawn = |live: bool| {
            let mut out = Vec::new();
            let mut screen = Screen::new(&mut out, live);
            screen.now("first").unwrap();
            screen.now("second").unwrap();
            screen.line("done").unwrap();
            screen.clear().unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(drawn(false), "done\n");
        let written = drawn(true);
        assert_eq!(written.matches(CLEAR).count(), 3);
        assert!(written.ends_with(&format!("{CLEAR}done\n")), "{written:?}");
    }
}
