//! What comes in from outside, and what reads or deletes across features.

pub mod callbacks;
pub mod deletion;
pub mod inbound_messages;
