//! Finds one message of a broadcast by its id.
//!
//! The id is derived from the id of the broadcast and the index of the recipient; none is stored.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use postrider_broadcast::record::{Record, of_message};
use postrider_domain::{MessageId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::broadcasts::committed::Committed;
use crate::broadcasts::view::{RecipientError, RecipientStatus};
use crate::messages::{MessageError, MessageKind, MessageState, MessageStatus};

/// Where a broadcast's message stands; nothing for one that is not sent to, and when no broadcast
/// has a message of that id.
pub(crate) fn message(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: MessageId,
) -> Result<Option<MessageState>, StoreError> {
    let (prefix, index) = of_message(workspace, id);
    let mut records = Vec::new();
    let direction = Direction::Forward;
    store.scan(Table::Broadcasts, &prefix, None, direction, &mut |_, value| {
        records.push(codec::decode::<Record>(value));
        ControlFlow::Continue(())
    })?;
    for record in records {
        let of = Committed::of(store, workspace, record?);
        if let Some((to, status, failed)) = of.recipient(index)? {
            return Ok(told(status).map(|(status, reason)| MessageState {
                message_id: id,
                to: to.into(),
                kind: MessageKind::Template,
                template: Some(of.record.template.clone()),
                status,
                error: error(failed.map(RecipientError::from), reason),
                number: of.record.number,
                price: of.record.price,
                created_at: of.record.created_at,
                give_up_at: of.record.created_at,
                unknown_at: None,
                sent_at: None,
                delivered_at: None,
                read_at: None,
                failed_at: None,
            }));
        }
    }
    Ok(None)
}

/// What a message is that became of a recipient, and why it failed where the channel has no part in
/// it.
fn told(status: RecipientStatus) -> Option<(MessageStatus, Option<&'static str>)> {
    Some(match status {
        RecipientStatus::Pending => (MessageStatus::Queued, None),
        RecipientStatus::Sent => (MessageStatus::Sent, None),
        RecipientStatus::Delivered => (MessageStatus::Delivered, None),
        RecipientStatus::Read => (MessageStatus::Read, None),
        RecipientStatus::Failed => (MessageStatus::Failed, None),
        RecipientStatus::Unknown => (MessageStatus::Unknown, None),
        RecipientStatus::Cancelled => (MessageStatus::Failed, Some("cancelled")),
        RecipientStatus::Suppressed => return None,
    })
}

fn error(failed: Option<RecipientError>, reason: Option<&'static str>) -> Option<MessageError> {
    let error = |reason: &str, code, details| MessageError { reason: reason.into(), code, details };
    match (failed, reason) {
        (Some(RecipientError { reason, code, details }), _) => Some(error(reason, code, details)),
        (None, Some(reason)) => Some(error(reason, None, Box::default())),
        (None, None) => None,
    }
}
