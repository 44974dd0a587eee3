//! Emits reports about a number itself: errors without a message, and ignored items.

use postrider_channel::Failure;
use postrider_channel::callback::{ChannelFault, IgnoredItems};
use postrider_domain::event::number::{ChannelErrorData, ChannelIgnoredData};
use postrider_domain::{EventData, NumberId};
use postrider_number::record::NumberInfo;

use crate::core::command::Context;

/// Emits an error without a message. Returns the failure.
pub(super) fn fault(
    context: &mut Context<'_>,
    number_id: NumberId,
    fault: ChannelFault,
) -> Failure {
    let ChannelFault { failure, title, .. } = fault;
    let (error_code, details) = (failure.code, failure.details.clone());
    tracing::warn!(
        workspace = %context.core.id, number = %number_id, code = error_code,
        "the channel reports an error of a number"
    );
    let data = ChannelErrorData { number_id, error_code, title, details };
    context.effects.emit(context.now(), EventData::ChannelError(data));
    failure
}

/// Returns the other numbers of a number's account.
pub(super) fn others_of_account(context: &Context<'_>, number: NumberId) -> Vec<NumberId> {
    let account = |it: &NumberInfo| it.account.as_ref().map(|it| it.account_id.clone());
    let own = context.connected.iter().find(|it| it.id == number).and_then(account);
    let others = context.connected.iter().filter(|it| it.id != number);
    others.filter(|it| own.is_some() && account(it) == own).map(|it| it.id).collect()
}

/// Emits the items that were ignored.
pub(super) fn ignored(context: &mut Context<'_>, number_id: NumberId, items: IgnoredItems) {
    let IgnoredItems { field, reason, count } = items;
    let data = ChannelIgnoredData { number_id, field, reason: reason.as_str(), count };
    context.effects.emit(context.now(), EventData::ChannelIgnored(data));
}
