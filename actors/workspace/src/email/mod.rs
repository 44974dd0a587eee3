//! The e-mail channel of a workspace: mails that arrive, and replies that are sent.
//!
//! [`Table::Mails`] has, under `workspace ‖ 0`:
//! - `s`: the secret that signs arriving mails;
//! - `d ‖ hash` of a `Message-ID`: the conversation that the mail belongs to;
//! - `a ‖ address`: the conversation with the person who writes from there;
//! - `m ‖ message`: an outgoing mail.
//!
//! [`Table::MailQueue`] has `workspace ‖ 0 ‖ message` for each
//! mail that has not left.

#[cfg(test)]
mod golden;
mod outgoing;
mod receive;
mod secret;

use postrider_domain::fold::fold;
use postrider_domain::{ConversationId, Email, MessageId, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};
use sha2::{Digest, Sha256};

use crate::conversations::{Direction, Written};
use crate::email::outgoing::MailRecord;
use crate::sweep::{Look, RecordKeys};

#[cfg(any(test, feature = "testing"))]
pub use outgoing::claim;
pub(crate) use outgoing::{outcome_of, reply};
pub use receive::ReceiveMailError;
pub use secret::{EmailChannel, resealed};

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

/// Returns the records of a mail besides its conversation, to be deleted; another message has none.
///
/// Without them a mail that has not left is not sent any more.
pub(crate) fn records_with_conversation(
    look: &Look<'_>,
    of: ConversationId,
    id: MessageId,
    written: &Written,
) -> Result<RecordKeys, StoreError> {
    let mut keys = records_with_message(look, id, written)?;
    if let Some(mail) = &written.mail {
        keys.extend(address_record(look, of, &mail.address)?);
    }
    Ok(keys)
}

/// Does the same if the conversation stays, with the owners of addresses.
pub(crate) fn records_with_message(
    look: &Look<'_>,
    id: MessageId,
    written: &Written,
) -> Result<RecordKeys, StoreError> {
    let mut keys = Vec::new();
    if written.kind != "email" {
        return Ok(keys);
    }
    if let Some(mail) = &written.mail {
        keys.push((Table::Mails, known_key(look.workspace, &mail.message_id)));
    }
    if written.direction == Direction::Out {
        let key = mail_key(look.workspace, id);
        let record = look.store.get(Table::Mails, &key)?;
        if let Some(record) = record {
            let record: MailRecord = codec::decode(&record)?;
            keys.push((Table::Mails, known_key(look.workspace, &record.message_id)));
            keys.push((Table::Mails, key));
        }
        keys.push((Table::MailQueue, queue_key(look.workspace, id)));
    }
    Ok(keys)
}

/// Returns whether a message is a mail that has not left.
pub(crate) fn is_waiting(look: &Look<'_>, id: MessageId) -> Result<bool, StoreError> {
    Ok(look.store.get(Table::MailQueue, &queue_key(look.workspace, id))?.is_some())
}

/// Returns the record that binds an address to this conversation, if it still does.
pub(crate) fn address_record(
    look: &Look<'_>,
    of: ConversationId,
    address: &Email,
) -> Result<Option<(Table, Vec<u8>)>, StoreError> {
    let key = address_key(look.workspace, address);
    let kept = look.store.get(Table::Mails, &key)?;
    Ok(kept.is_some_and(|kept| kept == of.as_bytes()).then_some((Table::Mails, key)))
}
