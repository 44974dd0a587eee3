//! Finds messages of broadcasts: one by its id, all of a broadcast, and one by its channel id.
//!
//! An id is derived from the id of the broadcast and the index of the recipient; none is stored.

use postrider_store::view::codec;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use hashbrown::HashMap;
use postrider_broadcast::audience::place_of;
use postrider_broadcast::outcomes::Failed;
use postrider_broadcast::record::{
    self, Record, WINDOW, message_id, of_message, record_key, records_prefix,
};
use postrider_broadcast::{provider_ids, with_variables};
use postrider_domain::template::{TemplateCategory, parameters};
use postrider_domain::{BroadcastId, MessageId, Phone, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::broadcasts::committed::Committed;
use crate::broadcasts::view::{RecipientError, RecipientStatus};
use crate::messages::{MessageError, MessageKind, MessageState, MessageStatus};

/// The number of broadcasts that are searched for a message that is answered or reacted to.
const SEARCHED_MAX: usize = 100;

/// The messages of one broadcast.
pub(crate) struct MessagesOf<'a>(Committed<'a>);

impl<'a> MessagesOf<'a> {
    /// Reads this broadcast; `None` if there is none, or its recipients are deleted.
    pub(crate) fn read(
        store: &'a dyn View,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
    ) -> Result<Option<Self>, StoreError> {
        let found = Committed::read(store, workspace, id)?;
        Ok(found.filter(|found| !found.record.recipients_dropped).map(Self))
    }

    /// Returns the number of windows of its recipients.
    pub(crate) const fn windows(&self) -> u32 {
        self.0.record.sendable.div_ceil(WINDOW)
    }

    /// Returns the message to the recipient at a place; `None` for one that is not sent to.
    pub(crate) fn message(&self, index: u32) -> Result<Option<MessageState>, StoreError> {
        let found = self.0.recipient(index)?;
        Ok(found.and_then(|(to, status, failed)| self.state(index, to, status, failed)))
    }

    /// Returns the texts of messages; none of an authentication template.
    pub(crate) fn texts(
        &self,
        workspace: &WorkspaceId,
        messages: &[MessageId],
    ) -> Result<HashMap<MessageId, Box<str>>, StoreError> {
        let Record { id, category, components, definition, .. } = &self.0.record;
        let mut texts = HashMap::new();
        if *category == TemplateCategory::Authentication {
            return Ok(texts);
        }
        // In order of their places, each part of the audience is read once.
        let places = messages.iter().map(|message| of_message(workspace, *message).1);
        let places: BTreeSet<u32> = places.filter(|it| *it < self.0.record.sendable).collect();
        self.0.recipients(places.into_iter(), &mut |index, _, variables| {
            // The parameters fitted when the broadcast was created.
            let filled = parameters::fill(definition, &with_variables(components, variables));
            texts.extend(filled.ok().map(|filled| (message_id(*id, index), filled.text.into())));
        })?;
        Ok(texts)
    }

    /// Returns the messages to the recipients of a window, in the order of their places.
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
        message_status(status).map(|(status, reason)| MessageState {
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
            of_several: !record.beside.is_empty(),
        })
    }
}

/// Returns ids of broadcasts before one, newest first: at most `limit`.
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

/// Returns the message of a broadcast to this phone with this channel id.
///
/// Only the newest broadcasts are searched, without those that ended before `since`.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn called_by_channel(
    (store, workspace): (&dyn View, &WorkspaceId),
    phone: Phone,
    name: &str,
    since: Timestamp,
) -> Result<Option<MessageId>, StoreError> {
    for id in ids_before(store, workspace, None, SEARCHED_MAX)? {
        let Some(place) = place_of(store, workspace, id, phone)? else { continue };
        let known = provider_ids::name(store, workspace, id, place)?;
        if known.as_deref() == Some(name) {
            // It may have started long after its creation.
            let is_over = || {
                let record = record::read(store, workspace, id)?;
                let finished_at = record.and_then(|record| record.finished_at);
                Ok::<_, StoreError>(finished_at.is_some_and(|at| at < since))
            };
            let is_old = id.timestamp() < since && is_over()?;
            return Ok((!is_old).then(|| message_id(id, place)));
        }
    }
    Ok(None)
}

/// Returns the state of a broadcast's message.
///
/// `None` for a recipient that is not sent to, and if no broadcast has a message of that id.
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

/// Returns the message status of a recipient, and the failure reason if the channel has no part in
/// it.
fn message_status(status: RecipientStatus) -> Option<(MessageStatus, Option<&'static str>)> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postrider_broadcast::audience::ByPhone;
    use postrider_domain::golden::{AT, UNIQUE};
    use postrider_store::{Change, Group, MemoryStore, Store};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_made_long_before_it_was_sent_is_found_by_the_channels_name() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse().unwrap());
        let phone: Phone = "+15550123456".parse().unwrap();
        let day = Duration::from_secs(86_400);
        let made = |days: u32| BroadcastId::from_parts(AT.plus(day * days), UNIQUE);
        let write = |days: u32, finished_at: Option<Timestamp>| {
            let id = made(days);
            let record = json!({
                "id": id, "name": "Sale", "template": {"name": "sale", "language": "en"},
                "category": "marketing", "policy": "at_most_once", "status": "completed",
                "reason": null, "total": 1, "sendable": 1, "price": 1,
                "number": postrider_domain::NumberId::from_parts(AT, UNIQUE), "definition": [],
                "components": [], "personal": false, "created_at": AT, "schedule_at": null,
                "started_at": AT, "finished_at": finished_at, "retry_of": null, "settled": false,
            });
            let record = serde_json::to_vec(&record).unwrap();
            let phones = [phone.as_u64()];
            let by_phone = ByPhone::of(&phones);
            let mut names = vec![(0, format!("wamid.{days}").into())];
            let mut changes = provider_ids::changes(&workspace, id, &mut names);
            changes.extend(by_phone.changes(&workspace, id, &phones));
            changes.push(Change::put(Table::Broadcasts, record_key(&workspace, id), record));
            store.commit(Group::new(None, &changes)).unwrap();
        };
        // Scheduled far ahead and sent yesterday, sent long ago, under way, and new.
        write(0, Some(AT.plus(day * 99)));
        write(1, Some(AT.plus(day)));
        write(2, None);
        write(90, Some(AT.plus(day * 90)));
        let since = AT.plus(day * 69);
        let found = [0, 1, 2, 90, 7].map(|days| {
            let name = format!("wamid.{days}");
            called_by_channel((&store, &workspace), phone, &name, since).unwrap()
        });
        let message = |days| Some(message_id(made(days), 0));
        assert_eq!(found, [message(0), None, message(2), message(90), None]);
    }
}
