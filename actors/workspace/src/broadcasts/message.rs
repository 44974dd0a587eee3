//! Finds messages of broadcasts: one by its id, those of a broadcast, and those of each.
//!
//! An id is derived from the id of the broadcast and the index of the recipient; none is stored.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use postrider_broadcast::outcomes::Failed;
use postrider_broadcast::record::{
    Record, WINDOW, message_id, of_message, record_key, records_prefix,
};
use postrider_domain::{BroadcastId, MessageId, Phone, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::broadcasts::committed::Committed;
use crate::broadcasts::view::{RecipientError, RecipientStatus};
use crate::messages::{MessageError, MessageKind, MessageState, MessageStatus};

/// The messages of one broadcast.
pub(crate) struct MessagesOf<'a>(Committed<'a>);

impl<'a> MessagesOf<'a> {
    /// Those of this broadcast; nothing if there is none, or its recipients are deleted.
    pub(crate) fn read(
        store: &'a dyn View,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
    ) -> Result<Option<Self>, StoreError> {
        let found = Committed::read(store, workspace, id)?;
        Ok(found.filter(|found| !found.record.recipients_dropped).map(Self))
    }

    /// How many windows its recipients are in.
    pub(crate) const fn windows(&self) -> u32 {
        self.0.record.sendable.div_ceil(WINDOW)
    }

    /// The message to the recipient at a place; nothing for one that is not sent to.
    pub(crate) fn message(&self, index: u32) -> Result<Option<MessageState>, StoreError> {
        let found = self.0.recipient(index)?;
        Ok(found.and_then(|(to, status, failed)| self.state(index, to, status, failed)))
    }

    /// The messages to the recipients of a window, in the order of their places.
    pub(crate) fn window(
        &self,
        window: u32,
    ) -> Result<Vec<(u32, Option<MessageState>)>, StoreError> {
        let mut rows = Vec::new();
        self.0.window(window, &mut |index, to, status, failed| {
            rows.push((index, self.state(index, to, status, failed)));
        })?;
        Ok(rows)
    }

    fn state(
        &self,
        index: u32,
        to: Phone,
        status: RecipientStatus,
        failed: Option<Failed>,
    ) -> Option<MessageState> {
        let record = &self.0.record;
        told(status).map(|(status, reason)| MessageState {
            message_id: message_id(record.id, index),
            to: to.into(),
            kind: MessageKind::Template,
            template: Some(record.template.clone()),
            status,
            error: error(failed.map(RecipientError::from), reason),
            number: record.number,
            price: record.price,
            created_at: record.created_at,
            give_up_at: record.created_at,
            unknown_at: None,
            held_at: None,
            sent_at: None,
            delivered_at: None,
            read_at: None,
            failed_at: None,
            notes: record.notes.clone(),
            pinned: !record.from.is_empty(),
            answers: None,
            provider_id: None,
            media: None,
            broadcast: Some(record.id),
        })
    }
}

/// Ids of broadcasts before one, newest first: at most `limit`.
pub(crate) fn ids_before(
    store: &dyn View,
    workspace: &WorkspaceId,
    before: Option<BroadcastId>,
    limit: usize,
) -> Result<Vec<BroadcastId>, StoreError> {
    let prefix = records_prefix(workspace);
    let from = before.map(|id| record_key(workspace, id));
    let mut ids = Vec::new();
    let (table, direction) = (Table::Broadcasts, Direction::Backward);
    store.scan(table, &prefix, from.as_deref(), direction, &mut |key, _| {
        let id = key[prefix.len()..].try_into().ok().map(BroadcastId::from_bytes);
        ids.extend(id.filter(|id| before.is_none_or(|before| *id < before)));
        if ids.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(ids)
}

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
            return Ok(MessagesOf(of).state(index, to, status, failed));
        }
    }
    Ok(None)
}

/// What a message is that became of a recipient, and why it failed where the channel has no part in
/// it.
fn told(status: RecipientStatus) -> Option<(MessageStatus, Option<&'static str>)> {
    Some(match status {
        RecipientStatus::Pending => (MessageStatus::Queued, None),
        RecipientStatus::Held => (MessageStatus::Held, None),
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
