//! Shows the progress of a command: a bar on a terminal, occasional lines elsewhere.

use std::io::Write;

use indicatif::{ProgressBar, ProgressStyle};

use super::terminal::escaped;

/// The number of lines that report the progress without a terminal.
const LINES: u64 = 20;

/// Shows the progress of a command on standard error.
pub(super) struct Progress {
    bar: ProgressBar,
    total: u64,
    /// The last part that a line reported.
    reported: u64,
}

impl Progress {
    /// Starts the progress through `total` bytes.
    pub(super) fn bytes(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_style(style("{bar:40} {bytes}/{total_bytes} {msg} ({eta})"));
        Self { bar, total, reported: 0 }
    }

    /// Starts the progress through `total` items.
    pub(super) fn items(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_style(style("{bar:40} {human_pos}/{human_len} {msg} ({eta})"));
        Self { bar, total, reported: 0 }
    }

    /// Sets the starting point.
    pub(super) fn start_at(&mut self, at: u64) {
        self.bar.set_position(at);
        self.bar.reset_eta();
        self.reported = self.part(at);
    }

    /// Reports the position. `what` describes the work done so far.
    pub(super) fn at(&mut self, at: u64, what: &str) {
        self.bar.set_position(at);
        self.bar.set_message(what.to_owned());
        let part = self.part(at);
        if self.bar.is_hidden() && part > self.reported {
            self.reported = part;
            self.print(&format!("{} %: {what}", part * 100 / LINES));
        }
    }

    /// Prints a line above the bar.
    pub(super) fn print(&self, line: &str) {
        // If standard error is closed, the line cannot be shown anywhere.
        self.bar.suspend(|| drop(writeln!(std::io::stderr().lock(), "{}", escaped(line))));
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn part(&self, at: u64) -> u64 {
        at.saturating_mul(LINES).checked_div(self.total).unwrap_or(0)
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are valid; otherwise the default style is used.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
