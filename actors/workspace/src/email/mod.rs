//! The e-mail channel of a workspace: mails that arrive, and replies that are sent.
//!
//! [`Table::Mails`](postrider_store::Table::Mails) has, under `workspace ‖ 0`:
//! - `s`: the secret that signs arriving mails;
//! - `d ‖ hash` of a `Message-ID`: the conversation that the mail belongs to;
//! - `a ‖ address`: the conversation with the person who writes from there;
//! - `m ‖ message`: an outgoing mail.
//!
//! [`Table::MailQueue`](postrider_store::Table::MailQueue) has `workspace ‖ 0 ‖ message` for each
//! mail that has not left.

mod deletion;
#[cfg(test)]
mod golden;
mod mailer;
mod outgoing;
mod receive;
mod reply;
mod secret;

pub use receive::ReceiveMailError;
pub use secret::EmailChannel;
pub use secret::resealed;

#[cfg(any(test, feature = "testing"))]
pub use outgoing::claim;

pub(crate) use deletion::{address_of, beside, is_waiting, of_mail};
pub(crate) use outgoing::outcome_of;
pub(crate) use reply::reply;

use sha2::{Digest, Sha256};

use postrider_domain::fold::fold;
use postrider_domain::{Email, MessageId, WorkspaceId};

fn key(workspace: &WorkspaceId, kind: u8, rest: &[u8]) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, kind], rest].concat()
}

/// Returns the key of the conversation that a mail of this `Message-ID` belongs to.
fn known_key(workspace: &WorkspaceId, message_id: &str) -> Vec<u8> {
    key(workspace, b'd', &Sha256::digest(message_id)[..16])
}

/// Returns the key of the conversation with an address, whatever its case.
fn address_key(workspace: &WorkspaceId, address: &Email) -> Vec<u8> {
    // It is a hash, because a key is bounded.
    key(workspace, b'a', &Sha256::digest(fold(address.as_str())))
}

fn mail_key(workspace: &WorkspaceId, id: MessageId) -> Vec<u8> {
    key(workspace, b'm', id.as_bytes())
}

fn queue_key(workspace: &WorkspaceId, id: MessageId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], id.as_bytes()].concat()
}
