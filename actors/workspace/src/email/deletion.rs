//! The records of mails, to be deleted with the messages.

use crate::conversations::{Direction, Written};
use crate::sweep::{Look, RecordKeys};
use postrider_domain::{ConversationId, Email, MessageId};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table};

use crate::email::outgoing::Record;
use crate::email::{address_key, known_key, mail_key, queue_key};

/// Returns the records of a mail besides its conversation; another message has none.
///
/// Without them a mail that has not left is not sent any more.
pub(crate) fn beside(
    look: &Look<'_>,
    of: ConversationId,
    id: MessageId,
    written: &Written,
) -> Result<RecordKeys, StoreError> {
    let mut keys = of_mail(look, id, written)?;
    if let Some(mail) = &written.mail {
        keys.extend(address_of(look, of, &mail.address)?);
    }
    Ok(keys)
}

/// Does the same if the conversation stays, with the owners of addresses.
pub(crate) fn of_mail(
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
            let record: Record = codec::decode(&record)?;
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
pub(crate) fn address_of(
    look: &Look<'_>,
    of: ConversationId,
    address: &Email,
) -> Result<Option<(Table, Vec<u8>)>, StoreError> {
    let key = address_key(look.workspace, address);
    let kept = look.store.get(Table::Mails, &key)?;
    Ok(kept.is_some_and(|kept| kept == of.as_bytes()).then_some((Table::Mails, key)))
}
