//! Pure: the number through which a message or a code leaves.
//!
//! `pool` has the numbers to choose from, `sticky` the number of a contact, and `codes` that of a
//! request for a code. Messages choose theirs in `messages/number_choice.rs`.

pub(crate) mod codes;
pub mod pool;
pub(crate) mod sticky;
