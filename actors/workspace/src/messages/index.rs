//! The index by which single messages are found: by recipient, by reference, by the channel's id.
//!
//! [`Table::MessageIndex`] has, under `workspace ‖ 0`, for each message `t ‖ recipient ‖ 0 ‖ id`,
//! of one with a reference `r ‖ reference ‖ 0 ‖ id`, and of one that the channel has taken
//! `p ‖ its id there ‖ 0 ‖ id`; the values are empty. Ids begin with the moment, so those of one
//! recipient are in the order of time. An entry is written with its message, the last with the
//! answer that names it. A sweep deletes messages past their retention time with their entries.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::{MessageId, PartyId, WorkspaceId};
use postrider_store::{StoreError, Table, View};

use crate::core::message_status::MessageStatus;
use crate::messages::record::MessageState;
use crate::newest_first;
use crate::sweep::{Look, NEVER, RecordKeys, SLICE_MAX, SweepCursor};

/// The search key of messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By<'a> {
    /// The recipient.
    To(&'a PartyId),
    /// The sender's reference for the message.
    Reference(&'a str),
    /// The channel's id of the message.
    Channel(&'a str),
    /// The recipient, for the text (`messages/texts.rs`).
    Text(&'a PartyId),
}

impl By<'_> {
    /// Returns the key prefix of these messages.
    pub(crate) fn prefix(self, workspace: &WorkspaceId) -> Vec<u8> {
        self.followed_by(workspace, &[])
    }

    pub(crate) fn key(self, workspace: &WorkspaceId, id: MessageId) -> Vec<u8> {
        self.followed_by(workspace, id.as_bytes())
    }

    fn followed_by(self, workspace: &WorkspaceId, end: &[u8]) -> Vec<u8> {
        let (kind, value) = match self {
            Self::To(to) => (b't', Cow::Owned(to.key_text())),
            Self::Reference(reference) => (b'r', Cow::Borrowed(reference)),
            Self::Channel(id) => (b'p', Cow::Borrowed(id)),
            Self::Text(to) => (b'x', Cow::Owned(to.key_text())),
        };
        [workspace.as_str().as_bytes(), &[0, kind], value.as_bytes(), &[0], end].concat()
    }
}

/// Returns the keys of all entries of a message.
pub(crate) fn entry_keys(
    workspace: &WorkspaceId,
    state: &MessageState,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    let to = By::To(&state.to).key(workspace, state.message_id);
    let reference = state.notes.reference.as_deref();
    let reference = reference.map(|it| By::Reference(it).key(workspace, state.message_id));
    let channel = state.provider_id.as_deref();
    let channel = channel.map(|it| By::Channel(it).key(workspace, state.message_id));
    [to].into_iter().chain(reference).chain(channel)
}

/// Returns the newest message with this channel id.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn called_by_channel(
    store: &dyn View,
    workspace: &WorkspaceId,
    name: &str,
) -> Result<Option<MessageState>, StoreError> {
    let newest = before(store, &By::Channel(name).prefix(workspace), None, 1)?.pop();
    newest.map_or(Ok(None), |id| MessageState::read(store, workspace, id))
}

/// Returns ids of the index before an id, newest first: at most `limit`.
pub(crate) fn before(
    store: &dyn View,
    prefix: &[u8],
    before: Option<MessageId>,
    limit: usize,
) -> Result<Vec<MessageId>, StoreError> {
    let before = before.as_ref().map(MessageId::as_bytes);
    let ids = newest_first::ids_before(store, (Table::MessageIndex, prefix), before, limit)?;
    Ok(ids.into_iter().map(MessageId::from_bytes).collect())
}

/// The interval of the search for them.
const ROUND: Duration = Duration::from_secs(3600);

/// Reads some of the messages past their retention time.
///
/// A message that may still be sent, or settled by a report, stays until that is over.
pub(crate) fn expired_messages(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let Some(kept_for) = look.kept.messages.kept_for else {
        cursor.rest_until(NEVER);
        return Ok(Vec::new());
    };
    let prefix = MessageState::prefix(look.workspace);
    let from = cursor.from.clone();
    let (mut keys, mut next) = (Vec::new(), look.now.plus(ROUND));
    let mut goes = None;
    look.scan(Table::Messages, &prefix, &from, &mut |key, value| {
        let Some((id, part)) = key[prefix.len()..].split_first_chunk() else {
            return ControlFlow::Continue(());
        };
        let id = MessageId::from_bytes(*id);
        if id.timestamp().plus(kept_for) > look.now {
            return ControlFlow::Break(());
        }
        // The parts of a message are deleted together.
        if part.is_empty() && keys.len() >= SLICE_MAX {
            next = look.now;
            return ControlFlow::Break(());
        }
        if part.is_empty() {
            // A message whose record cannot be read stays; its readers get the error.
            let state = MessageState::decode(id, value).ok();
            let settled = state.filter(|state| is_settled(state, look));
            goes = settled.is_some().then_some(id);
            if let Some(state) = &settled {
                let text = By::Text(&state.to).key(look.workspace, id);
                let entries = entry_keys(look.workspace, state).chain([text]);
                keys.extend(entries.map(|key| (Table::MessageIndex, key)));
            }
        }
        if goes == Some(id) {
            cursor.pass(key);
            keys.push((Table::Messages, key.to_vec()));
        } else {
            cursor.pass_over(key);
        }
        ControlFlow::Continue(())
    })?;
    cursor.rest_until(next);
    Ok(keys)
}

/// Returns whether no later report can change the cost of a message.
fn is_settled(state: &MessageState, look: &Look<'_>) -> bool {
    match state.status {
        MessageStatus::Queued => false,
        MessageStatus::Unknown => {
            state.last_moment().plus(look.kept.messages.unknown_after) <= look.now
        }
        _ => true,
    }
}

#[cfg(test)]
mod sweep_tests {
    use postrider_domain::{Timestamp, WorkspaceId};
    use postrider_store::{Change, Direction, Group, MemoryStore, Store, View};

    use super::*;
    use crate::core::settings::MessageOptions;
    use crate::sweep::RetentionTimes;

    /// Returns all keys of a table.
    fn keys_of(store: &MemoryStore, table: Table) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let visit = &mut |key: &[u8], _: &[u8]| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        };
        store.scan(table, &[], None, Direction::Forward, visit).unwrap();
        keys
    }

    #[test]
    fn all_parts_of_a_message_go_wherever_a_slice_ends() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse::<WorkspaceId>().unwrap());
        for number in 0..400 {
            let mut state = tests::state(Timestamp::from_millis(1_000 + number));
            state.notes.reference = None;
            let key = MessageState::key(&workspace, state.message_id);
            let content = [&*key, b"c"].concat();
            let mut changes = vec![
                Change::put(Table::Messages, key, state.encode()),
                Change::put(Table::Messages, content, *b"{}"),
            ];
            let entries = entry_keys(&workspace, &state);
            changes.extend(entries.map(|key| Change::put(Table::MessageIndex, key, [])));
            store.commit(Group::new(None, &changes)).unwrap();
        }
        let day = Duration::from_secs(24 * 3_600);
        let messages = MessageOptions { kept_for: Some(day), ..MessageOptions::default() };
        let kept = RetentionTimes { broadcasts: day, messages, otps: day };
        let now = Timestamp::from_millis(1_400).plus(2 * day);
        let look = Look { store: &store, workspace: &workspace, now, kept, age_rests: false };
        let mut cursor = SweepCursor::default();
        while cursor.is_due(now) {
            let keys = expired_messages(&look, &mut cursor).unwrap();
            let removed = keys.into_iter().map(|(table, key)| Change::delete(table, key));
            store.commit(Group::new(None, &removed.collect::<Vec<_>>())).unwrap();
        }
        assert!(keys_of(&store, Table::Messages).is_empty());
        assert!(keys_of(&store, Table::MessageIndex).is_empty());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use postrider_domain::golden::{AT, Sheet, UNIQUE};
    use postrider_domain::{MessageKind, NumberId, SenderNotes, Timestamp, UserId};

    use super::*;
    use crate::core::message_status::MessageStatus;

    pub(in crate::messages) fn state(at: Timestamp) -> MessageState {
        MessageState {
            message_id: MessageId::from_parts(at, UNIQUE),
            to: "+15550123456".parse().unwrap(),
            kind: MessageKind::Text,
            template: None,
            status: MessageStatus::Sent,
            error: None,
            number: NumberId::from_bytes([2; 16]),
            price: 1,
            created_at: at,
            give_up_at: at,
            unknown_at: None,
            held_at: None,
            sent_at: None,
            delivered_at: None,
            read_at: None,
            failed_at: None,
            notes: SenderNotes { reference: Some("é 1".to_owned()), ..SenderNotes::default() },
            pinned: false,
            answers: None,
            provider_id: None,
            media: None,
            broadcast: None,
            of_several: false,
        }
    }

    #[test]
    fn keys_are_as_ever() {
        let (workspace, mut sheet) = ("acme".parse().unwrap(), Sheet::default());
        let named = MessageState { provider_id: Some("wamid.1".into()), ..state(AT) };
        for key in entry_keys(&workspace, &named) {
            sheet.text("key", &key);
        }
        let user: UserId = "US.1".parse().unwrap();
        sheet.text("of a person", &By::To(&user.into()).prefix(&workspace));
        sheet.is(expect_test::expect![[r#"
            key: acme\x00t+15550123456\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            key: acme\x00r\xc3\xa9 1\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            key: acme\x00pwamid.1\x00\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            of a person: acme\x00tUS.1\x00
        "#]]);
    }
}
