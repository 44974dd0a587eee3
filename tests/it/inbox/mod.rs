//! The inbox: conversations by chat and e-mail, and the phones that opted out.

mod agents;
mod colleagues;
mod content;
mod conversations;
pub mod email;
mod email_server;
mod suppressions;
