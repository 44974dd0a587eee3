//! Takes the provider's notice that somebody has another phone number.
//!
//! Nobody wrote it: it opens no window and no conversation, and it is no reply.

use postrider_channel::callback::ChangedNumber;
use postrider_domain::{NumberId, Phone};
use postrider_store::Table;

use crate::contacts::{Contact, holder, put_changed};
use crate::core::command::Context;
use crate::inbox::inbound_messages::received_key;
use crate::inbox::phone_aliases;
use crate::messages::service_window;
use crate::suppressions;
use postrider_domain::unavailable::Unavailable;

/// Takes a notice, once. The contact gets the new number, unless another contact has it. An opt-out
/// holds for both numbers; the windows of the old one close, and the new one gets none of them.
pub(crate) fn take(
    context: &mut Context<'_>,
    number: NumberId,
    notice: &ChangedNumber,
) -> Result<(), Unavailable> {
    let id = notice.message_id(context.line(number));
    let key = received_key(&context.core.id, Some(id));
    if notice.from == notice.to || context.get(Table::Received, &key)?.is_some() {
        return Ok(());
    }
    let writer = phone_aliases::writer(context, notice.from)?;
    for phone in writer.phones() {
        suppressions::follow(context, notice.to, phone)?;
        service_window::close(context, phone, notice.at)?;
    }
    gets(context, writer.phone, notice.to)?;
    // Last, so that one that could not be taken is not known when it comes again. It opened no
    // window, so none is named.
    context.put(Table::Received, key, Vec::new());
    Ok(())
}

/// Gives the contact that has `old` the phone `new`, unless another contact has that.
fn gets(context: &mut Context<'_>, old: Phone, new: Phone) -> Result<(), Unavailable> {
    let Some(contact) = holder(context, old)? else { return Ok(()) };
    if holder(context, new)?.is_some() {
        return Ok(());
    }
    let updated_at = context.now();
    let changed = Contact { phone: Some(new), updated_at, ..contact.clone() };
    put_changed(context, &contact, &changed)
}
