//! How far something is: a bar on a terminal, a line for each tenth elsewhere.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shown while something goes on.
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines { total: u64, told: u64 },
}

impl Progress {
    /// Of `total` steps none is done.
    pub(super) fn of(total: u64) -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::Lines { total, told: 0 };
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stdout());
        let style = "   {bar:40} {human_pos}/{human_len} ({per_sec})";
        // A style that cannot be read leaves the usual one.
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    /// So many steps are done.
    pub(super) fn set(&mut self, done: u64) {
        match self {
            Self::Bar(bar) => bar.set_position(done),
            Self::Lines { total, told } => {
                let tenths = (done * 10).checked_div(*total).unwrap_or(10);
                if tenths > *told {
                    *told = tenths;
                    // Nobody may be reading.
                    drop(writeln!(std::io::stdout(), "   {}% ({done} of {total})", tenths * 10));
                }
            }
        }
    }

    /// Leaves what is shown as it is.
    pub(super) fn end(&self) {
        if let Self::Bar(bar) = self {
            bar.abandon();
        }
    }
}
