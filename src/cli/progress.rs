//! How far a long command is: a bar on a terminal, now and then a line elsewhere.

use std::io::Write;

use indicatif::{ProgressBar, ProgressStyle};

/// Lines that tell of the progress where there is no terminal.
const LINES: u64 = 20;

/// Shows how far a command is. All of it goes to standard error.
pub(super) struct Progress {
    bar: ProgressBar,
    total: u64,
    /// The last part that a line told of.
    told: u64,
}

impl Progress {
    /// Of something that has `total` bytes.
    pub(super) fn bytes(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_style(style("{bar:40} {bytes}/{total_bytes} {msg} ({eta})"));
        Self { bar, total, told: 0 }
    }

    /// Of `total` things.
    pub(super) fn things(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_style(style("{bar:40} {human_pos}/{human_len} {msg} ({eta})"));
        Self { bar, total, told: 0 }
    }

    /// It begins here.
    pub(super) fn start_at(&mut self, at: u64) {
        self.bar.set_position(at);
        self.bar.reset_eta();
        self.told = self.part(at);
    }

    /// It is here; `what` has been done.
    pub(super) fn at(&mut self, at: u64, what: &str) {
        self.bar.set_position(at);
        self.bar.set_message(what.to_owned());
        let part = self.part(at);
        if self.bar.is_hidden() && part > self.told {
            self.told = part;
            self.say(&format!("{} %: {what}", part * 100 / LINES));
        }
    }

    /// Says something beside it.
    pub(super) fn say(&self, line: &str) {
        // Where nobody can read it, nobody can be told.
        self.bar.suspend(|| drop(writeln!(std::io::stderr().lock(), "{line}")));
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn part(&self, at: u64) -> u64 {
        at.saturating_mul(LINES).checked_div(self.total).unwrap_or(0)
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are good; without one the bar has its own.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
