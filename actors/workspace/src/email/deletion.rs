//! Deleting what is kept of mails whose conversation is gone.

use crate::conversations::{Direction, Written};
use crate::core::command::Context;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ConversationId, Email, MessageId};
use postrider_store::Table;

use crate::email::outgoing::Record;
use crate::email::{address_key, known_key, mail_key, queue_key};

/// Deletes what is kept of a mail beside its conversation; of another message there is nothing. One
/// that has not left does not leave any more.
pub(crate) fn forget(
    context: &mut Context<'_>,
    of: ConversationId,
    id: MessageId,
    written: &Written,
) -> Result<(), Unavailable> {
    if written.kind != "email" {
        return Ok(());
    }
    let workspace = context.core.id.clone();
    if let Some(mail) = &written.mail {
        forget_address(context, of, &mail.address)?;
        context.delete(Table::Mails, known_key(&workspace, &mail.message_id));
    }
    if written.direction == Direction::Out {
        let key = mail_key(&workspace, id);
        let record: Option<Record> = context.get_json(Table::Mails, &key)?;
        if let Some(record) = record {
            context.delete(Table::Mails, known_key(&workspace, &record.message_id));
            context.delete(Table::Mails, key);
        }
        context.delete(Table::MailQueue, queue_key(&workspace, id));
    }
    Ok(())
}

/// Forgets that an address belongs to this conversation, if it still does.
pub(crate) fn forget_address(
    context: &mut Context<'_>,
    of: ConversationId,
    address: &Email,
) -> Result<(), Unavailable> {
    let key = address_key(&context.core.id, address);
    if context.get(Table::Mails, &key)?.is_some_and(|kept| kept == of.as_bytes()) {
        context.delete(Table::Mails, key);
    }
    Ok(())
}
