//! One-time passwords: their life, the limits of a send, and the guard against SMS pumping.

mod cancel;
mod chain;
mod chain_beside;
mod chain_mail;
mod inbound;
mod lifecycle;
mod limits;
mod list;
mod pumping_guard;

pub use lifecycle::{PHONE, send, verify};
