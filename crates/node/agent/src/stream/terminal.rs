//! Pseudo-terminals.

use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Opens a terminal of this size; returns our end and the program's.
pub(super) fn open(columns: u16, rows: u16) -> std::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    // By descriptor, not by name: a name would be resolved in the /dev/pts mounted here.
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    resize(&ours, columns, rows)?;
    Ok((ours, theirs))
}

/// Resizes a terminal.
pub(super) fn resize(terminal: impl std::os::fd::AsFd, columns: u16, rows: u16) -> std::io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

#[cfg(test)]
mod tests {
    use rustix::termios::tcgetwinsize;

    #[test]
    fn both_ends_of_a_terminal_have_the_size_that_was_asked_for() {
        let (ours, theirs) = super::open(100, 40).unwrap();
        let size = tcgetwinsize(&theirs).unwrap();
        assert_eq!((size.ws_col, size.ws_row), (100, 40));
        super::resize(&ours, 120, 50).unwrap();
        let size = tcgetwinsize(&theirs).unwrap();
        assert_eq!((size.ws_col, size.ws_row), (120, 50));
    }
}
