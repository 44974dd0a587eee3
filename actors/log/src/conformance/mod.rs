//! The contract of every log, as one suite that each of them runs.

#![allow(
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "these are tests, also of logs in other crates"
)]

mod reading;
mod writing;

use std::sync::Arc;

use crate::Log;

pub use reading::*;
pub use writing::*;

/// The entries' bound of the logs under test.
pub const ENTRY_BYTES_MAX: usize = 2_000;

/// The remains of an append that fails with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Lost,
    Kept,
    /// Its first bytes, which are whole entries.
    Torn {
        bytes: usize,
    },
}

/// A log under test, with entries of at most [`ENTRY_BYTES_MAX`].
pub trait Subject {
    /// Opens the log as a new process does. The earlier handles are dropped.
    fn open(&mut self) -> Arc<dyn Log>;

    /// Makes the next append of the open log fail with this outcome.
    fn fail_next(&mut self, outcome: Outcome);

    /// Makes the outcome known: opens the log again, in the same process or in a new one.
    fn settle(&mut self, log: Arc<dyn Log>, outcome: Outcome) -> Arc<dyn Log>;
}

/// Runs the suite: `log_contract!(name, subject)` creates a module of tests.
#[macro_export]
macro_rules! log_contract {
    ($name:ident, $subject:expr) => {
        $crate::log_contract!(@tests $name, $subject;
            a_new_log_is_empty
            what_was_appended_is_read_back
            entries_are_chained_without_gaps
            a_position_that_is_taken_shows_who_has_it
            a_position_behind_the_next_is_refused
            of_two_writers_one_wins_each_position
            an_unknown_outcome_is_settled_by_the_entry
            a_large_commit_is_split_and_joined
            a_commit_without_its_last_part_is_void
            what_is_too_large_is_refused
            the_end_is_the_same_after_opening_again
            a_writer_must_claim_after_opening
            a_writer_that_was_replaced_is_refused
            trimming_keeps_the_rest_and_the_numbers
            reads_go_on_while_others_append
            what_belongs_elsewhere_is_refused
            entries_of_two_commits_are_refused
            a_changed_byte_is_refused
            reopening_a_log_that_works_changes_nothing
            bytes_are_counted_from_a_position
            a_read_can_stop_and_begin_behind_the_end
            a_closed_log_refuses_and_opens_again
            a_witness_finds_what_is_lost
        );
    };
    (@tests $name:ident, $subject:expr; $($test:ident)*) => {
        mod $name {
            #[allow(unused_imports, reason = "the subject may need nothing of it")]
            use super::*;

            $(#[test] fn $test() { $crate::conformance::$test(&mut $subject); })*
        }
    };
}
pub use crate::log_contract;
