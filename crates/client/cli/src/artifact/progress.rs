//! Transfer progress: bars on a terminal, a line per file elsewhere, nothing for scripts. Written to standard error, so
//! that standard output only contains the result.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::amount::bytes;
use crate::printable::printable;

/// Form of the progress display.
pub(crate) enum Progress {
    Bars(MultiProgress),
    Lines,
    Silent,
}

impl Progress {
    pub(crate) fn bars() -> Self {
        Self::Bars(MultiProgress::with_draw_target(ProgressDrawTarget::stderr()))
    }

    pub(crate) fn lines() -> Self {
        Self::Lines
    }

    pub(crate) fn silent() -> Self {
        Self::Silent
    }

    /// Starts a bar; `doing` is the current activity.
    pub(super) fn begin(&self, name: &str, doing: &str, total: u64) -> Bar {
        let name = printable(name).into_owned();
        let shown = match self {
            Self::Silent => Shown::Nowhere,
            Self::Lines => Shown::Lines,
            Self::Bars(bars) => {
                let bar = bars.add(ProgressBar::new(total));
                bar.set_style(style());
                bar.set_prefix(format!("{doing} {name}"));
                bar.enable_steady_tick(Duration::from_millis(250));
                Shown::Bar(bar, bars.clone())
            }
        };
        Bar { name, total, shown }
    }
}

fn style() -> ProgressStyle {
    let form =
        "{prefix:40!} {bar:24} {binary_bytes:>11}/{binary_total_bytes:<11} {binary_bytes_per_sec:>13} {msg}";
    ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[derive(Clone)]
enum Shown {
    Bar(ProgressBar, MultiProgress),
    Lines,
    Nowhere,
}

/// Progress of one transfer.
#[derive(Clone)]
pub(super) struct Bar {
    name: String,
    total: u64,
    shown: Shown,
}

impl Bar {
    /// Sets the position.
    pub(super) fn at(&self, position: u64) {
        if let Shown::Bar(bar, _) = &self.shown {
            bar.set_position(position);
        }
    }

    /// Advances the position.
    pub(super) fn further(&self, count: u64) {
        if let Shown::Bar(bar, _) = &self.shown {
            bar.inc(count);
        }
    }

    /// Shows a remark.
    pub(super) fn remark(&self, text: &str) {
        match &self.shown {
            Shown::Bar(bar, _) => bar.set_message(printable(text).into_owned()),
            Shown::Lines => eprintln!("{}: {}", self.name, printable(text)),
            Shown::Nowhere => {}
        }
    }

    /// Ends the bar; `done` is the result.
    pub(super) fn end(&self, done: &str) {
        match &self.shown {
            // A line stays for each file, and a bar only for running ones: a thousand files do not fit on a screen.
            Shown::Bar(bar, bars) => {
                bar.finish_and_clear();
                let _ = bars.println(self.ended(done));
            }
            Shown::Lines => eprintln!("{}", self.ended(done)),
            Shown::Nowhere => {}
        }
    }

    fn ended(&self, done: &str) -> String {
        format!("{done} {} ({})", self.name, bytes(self.total))
    }

    /// Removes the bar without a trace.
    pub(super) fn vanish(&self) {
        if let Shown::Bar(bar, _) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_bar_can_be_read() {
        let form = style();
        let bar = ProgressBar::with_draw_target(Some(4), ProgressDrawTarget::hidden()).with_style(form);
        bar.inc(4);
        assert_eq!(bar.position(), 4);
    }
}
