//! Pure: the number through which a message or a code leaves.
//!
//! `pool` has the numbers to choose from, `sticky_sender` the number of a contact, and
//! `code_sender` that of a request for a code. `takeover` has the messages that leave a number
//! which is down. Messages choose their number in `messages/number_choice.rs`.

pub(crate) mod code_sender;
pub mod pool;
pub(crate) mod sticky_sender;
pub(crate) mod takeover;
