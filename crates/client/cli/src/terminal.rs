//! The terminal of this process.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::{Failure, Result};

/// Raw mode guard: while it lives, keys are sent unprocessed. Dropped on every orderly exit.
pub(crate) struct Raw(Termios);

impl Raw {
    /// Sets raw mode; does nothing if standard input is not a terminal.
    pub(crate) fn set() -> Result<Option<Self>> {
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else { return Ok(None) };
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Flush, &raw)
            .map_err(|error| Failure::local("the terminal cannot be set", error))?;
        Ok(Some(Self(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing else can be done about a lost terminal.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &self.0);
    }
}

/// Returns columns and rows.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(std::io::stdout()).or_else(|_| tcgetwinsize(std::io::stdin())).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.min(1000), size.ws_row.min(1000)))
}
