//! The texts of single messages, for people.
//!
//! [`Table::MessageIndex`] has, under `workspace ‖ 0`, `x ‖ recipient ‖ 0 ‖ id` with the text in
//! UTF-8. It is written once, with the message's records. So the texts to one person lie together,
//! and a sweep deletes them after the person's contact is deleted or loses this name. Until then
//! [`Table::Aliases`] has `t ‖ recipient` with the moment of that (u64, big endian).

use std::ops::ControlFlow;

use postrider_domain::{MessageId, PartyId, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::core::command::Context;
use crate::messages::content;
use crate::messages::index::By;
use crate::messages::record::MessageState;
use crate::messages::unwritten;
use crate::sweep::{Look, NEVER, RecordKeys, SLICE_MAX, SweepCursor};

/// Returns the text of stored content; empty for an authentication template, whose parameters are
/// codes.
pub(super) fn of_content(content: &[u8]) -> Vec<u8> {
    // Content that cannot be read is reported where the message is handed over.
    let content = content::decode(content);
    content.map(|content| content.shown_text().as_bytes().to_vec()).unwrap_or_default()
}

/// Writes the text of a message, if it has one.
pub(super) fn write(context: &mut Context<'_>, state: &MessageState, text: Vec<u8>) {
    if !text.is_empty() {
        let key = By::Text(&state.to).key(&context.core.id, state.message_id);
        context.put(Table::MessageIndex, key, text);
    }
}

/// Returns the prefix of the marks of recipients whose texts are deleted.
pub(crate) fn marks(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0t"].concat()
}

/// Has the texts of all messages to a person deleted: the contact is deleted, or has another name.
pub(crate) fn forget(context: &mut Context<'_>, party: &PartyId) {
    // A text that is not written yet would be written after the sweep.
    for id in unwritten::of_party(context, party) {
        // The error was logged, and the next beat tries it again.
        unwritten::write(context, id).ok();
    }
    let now = context.now().as_millis().to_be_bytes();
    let key = [marks(&context.core.id), party.key_text().into_bytes()].concat();
    context.put(Table::Aliases, key, now.to_vec());
}

/// Returns whether texts are left that are to be deleted.
pub fn any_forgotten(store: &dyn View, workspace: &WorkspaceId) -> Result<bool, StoreError> {
    let mut any = false;
    let prefix = marks(workspace);
    store.scan(Table::Aliases, &prefix, None, Direction::Forward, &mut |_, _| {
        any = true;
        ControlFlow::Break(())
    })?;
    Ok(any)
}

/// Reads some of the texts of deleted contacts, and the marks of recipients without more of them.
pub(crate) fn of_deleted(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let (table, prefix) = (Table::MessageIndex, marks(look.workspace));
    let mut marked = Vec::new();
    look.scan(Table::Aliases, &prefix, &cursor.from, &mut |key, at| {
        marked.push((key.to_vec(), at.try_into().map(u64::from_be_bytes)));
        if marked.len() < SLICE_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let mut keys = RecordKeys::new();
    if marked.is_empty() {
        // A later mark moves the cursor back.
        cursor.pass(&[&*prefix, &[0xff]].concat());
        cursor.rest_until(NEVER);
    }
    for (mark, at) in marked {
        let until = Timestamp::from_millis(at.unwrap_or(u64::MAX));
        let texts = [look.workspace.as_str().as_bytes(), b"\0x", &mark[prefix.len()..], &[0]];
        let texts = texts.concat();
        look.scan(table, &texts, &[], &mut |key, _| {
            let id = key[texts.len()..].try_into().map(MessageId::from_bytes);
            if keys.len() == SLICE_MAX || !id.is_ok_and(|id| id.timestamp() <= until) {
                return ControlFlow::Break(());
            }
            keys.push((table, key.to_vec()));
            ControlFlow::Continue(())
        })?;
        if keys.len() == SLICE_MAX {
            break;
        }
        cursor.pass(&mark);
        keys.push((Table::Aliases, mark));
    }
    Ok(keys)
}

/// Returns the text of a single message; empty if it has none.
pub(crate) fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    to: &PartyId,
    id: MessageId,
) -> Result<Box<str>, StoreError> {
    let text = store.get(Table::MessageIndex, &By::Text(to).key(workspace, id))?;
    let text = String::from_utf8(text.unwrap_or_default());
    text.map(Into::into).map_err(|_| StoreError::Damaged("the text of a message".into()))
}
