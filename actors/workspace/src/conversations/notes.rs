//! Notes that the members of a workspace write for each other beside a conversation.
//!
//! `Table::Conversations` has them under `workspace ‖ 0 ‖ t ‖ conversation ‖ note` as JSON. They
//! are deleted with the messages of the conversation.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditActor, ConversationId, NoteId, Timestamp, WorkspaceId};
use postrider_runtime::random;
use postrider_store::view::codec;
use postrider_store::{Direction as ScanDirection, StoreError, Table, View};

use crate::Workspace;
use crate::conversations::record::{conversation_key, find, prefix};
use crate::core::command::{Command, Context, Footprint};
use crate::mailbox::watching::{ConversationAct, ConversationSign};

/// The maximum of notes of a conversation.
pub const NOTES_MAX: usize = 500;

/// A note. This is its record too, as JSON.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationNote {
    /// Its id, by which notes are listed.
    pub id: NoteId,
    /// The text.
    pub text: String,
    /// The author, by their name at that time.
    pub author: AuditActor,
    /// The time of creation.
    pub created_at: Timestamp,
}

impl std::fmt::Debug for ConversationNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConversationNote").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The reason why a note was not accepted, or is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// The workspace has no such conversation.
    #[error("no such conversation")]
    NotFound,
    /// The conversation has as many notes as it may.
    #[error("a conversation has at most 500 notes")]
    TooMany,
    /// The note cannot be taken or shown now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// A part of the notes of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesPage {
    /// Newest first.
    pub notes: Vec<ConversationNote>,
    /// The note before which the next part starts, if there is one.
    pub next: Option<NoteId>,
}

impl Workspace {
    /// Adds a note to a conversation.
    ///
    /// # Errors
    /// [`NoteError`]: there is no such conversation, it has too many, or not now.
    pub async fn add_note(
        &self,
        id: ConversationId,
        text: String,
        author: AuditActor,
    ) -> Result<ConversationNote, NoteError> {
        let unique = random::unique();
        let note = self.perform(AddNote { id, text, author: author.clone(), unique }).await?;
        self.sign(ConversationSign { conversation: id, act: ConversationAct::Noted, author });
        Ok(note)
    }

    /// Returns the notes of a conversation before one of them, newest first.
    ///
    /// # Errors
    /// [`NoteError`]: there is no such conversation, or not now.
    pub async fn notes(
        &self,
        id: ConversationId,
        before: Option<NoteId>,
        limit: usize,
    ) -> Result<NotesPage, NoteError> {
        let found = self.read(move |store, workspace| page(store, workspace, id, before, limit));
        found.await?.ok_or(NoteError::NotFound)
    }

    /// Notifies the followers of the workspace's events that a member writes in a conversation.
    ///
    /// # Errors
    /// [`NoteError`]: there is no such conversation, or not now.
    pub async fn show_typing(
        &self,
        id: ConversationId,
        author: AuditActor,
    ) -> Result<(), NoteError> {
        let known = self.read(move |store, workspace| {
            Ok(store.get(Table::Conversations, &conversation_key(workspace, id))?.is_some())
        });
        if !known.await? {
            return Err(NoteError::NotFound);
        }
        self.sign(ConversationSign { conversation: id, act: ConversationAct::Typing, author });
        Ok(())
    }

    fn sign(&self, sign: ConversationSign) {
        self.slot.watching.signs.send(sign);
    }

    /// Returns the signs of people in conversations from now on, for as long as the receiver is
    /// kept.
    #[must_use]
    pub fn watch_signs(&self) -> tokio::sync::broadcast::Receiver<ConversationSign> {
        self.slot.watching.signs.subscribe()
    }
}

/// Returns the key prefix of the notes of a conversation.
pub(crate) fn notes_prefix(workspace: &WorkspaceId, id: ConversationId) -> Vec<u8> {
    [prefix(workspace, b't').as_slice(), id.as_bytes()].concat()
}

fn note_key(workspace: &WorkspaceId, of: ConversationId, id: NoteId) -> Vec<u8> {
    [notes_prefix(workspace, of).as_slice(), id.as_bytes()].concat()
}

fn page(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: ConversationId,
    before: Option<NoteId>,
    limit: usize,
) -> Result<Option<NotesPage>, StoreError> {
    if store.get(Table::Conversations, &conversation_key(workspace, id))?.is_none() {
        return Ok(None);
    }
    let from = before.map(|before| note_key(workspace, id, before));
    let mut found = Vec::new();
    let (prefix, direction) = (notes_prefix(workspace, id), ScanDirection::Backward);
    let from = from.as_deref();
    store.scan(Table::Conversations, &prefix, from, direction, &mut |key, value| {
        if Some(key) != from {
            found.push(codec::decode::<ConversationNote>(value));
        }
        if found.len() > limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let mut notes = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let has_more = notes.len() > limit;
    notes.truncate(limit);
    let next = notes.last().filter(|_| has_more).map(|note| note.id);
    Ok(Some(NotesPage { notes, next }))
}

struct AddNote {
    id: ConversationId,
    text: String,
    author: AuditActor,
    unique: u128,
}

impl Command for AddNote {
    type Answer = ConversationNote;
    type Error = NoteError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<ConversationNote, NoteError> {
        let Self { id: of, text, author, unique } = self;
        find(context, of)?.ok_or(NoteError::NotFound)?;
        let workspace = context.core.id.clone();
        let mut count = 0;
        // Notes that are created at the same moment are not counted: the bound is for sanity.
        context.scan(Table::Conversations, &notes_prefix(&workspace, of), &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        if count >= NOTES_MAX {
            return Err(NoteError::TooMany);
        }
        let now = context.now();
        let id = NoteId::from_parts(now, unique);
        let note = ConversationNote { id, text, author, created_at: now };
        context.put_json(Table::Conversations, note_key(&workspace, of, id), &note);
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::ActorKind;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    #[test]
    fn a_note_is_stored_as_ever() {
        let id = NoteId::from_parts(AT, UNIQUE);
        let author = AuditActor {
            kind: ActorKind::User,
            id: Some("usr_1".into()),
            name: Some("Ada".into()),
        };
        let note = ConversationNote { id, text: "Hé".into(), author, created_at: AT };
        let of = ConversationId::from_parts(AT, UNIQUE + 1);
        let mut sheet = Sheet::default();
        sheet.text("key", &note_key(&"acme".parse().unwrap(), of, id));
        sheet.json("note", &note);
        sheet.is(expect![[r#"
            key: acme\x00t\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\x0b\x01\x8b\xcf\xe5h{\x01\x02\x03\x04\x05\x06\x07\x08\t\n
            note: {"id":"note_01hf7yat3v041061050r3gg28a","text":"Hé","author":{"kind":"user","id":"usr_1","name":"Ada"},"created_at":1700000000123}
        "#]]);
    }
}
