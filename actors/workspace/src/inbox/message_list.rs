//! Lists messages, newest first: single ones, and those of broadcasts if the filter asks for them.
//!
//! All are in the order of their ids, which start with the moment; a list continues at an id. An
//! index finds the messages of a recipient and those with a reference. All other conditions are
//! checked message by message. So a page looks at a bounded number of messages, and can be short
//! before the end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_broadcast::audience::place_of;
use postrider_broadcast::record::{WINDOW, message_id};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    BroadcastId, MessageId, MessageKind, NumberId, PartyId, Phone, Timestamp, WorkspaceId,
};
use postrider_store::{Direction, StoreError, Table, View};

use crate::Workspace;
use crate::broadcasts::{MessagesOf, ids_before};
use crate::contacts::phone_aliases::read_deleted_at;
use crate::messages::index::{self, By};
use crate::messages::{MessageState, MessageStatus, texts};
use crate::newest_first::{LOOKED_AT_MAX, Walk, merged};

/// The cost of looking for a phone in a broadcast.
const AS_A_BROADCAST: usize = 10;
/// The number of broadcasts that are read at once.
const BROADCASTS_AT_ONCE: usize = 100;
/// The maximum time for writing an audience: the broadcast's id is created before.
const AUDIENCE_WRITTEN: Duration = Duration::from_secs(3600);

/// The conditions for the listed messages; the default is all single ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageFilter {
    /// Messages to this phone or person, including those of broadcasts.
    pub to: Option<PartyId>,
    /// Messages with this status.
    pub status: Option<MessageStatus>,
    /// Messages of this kind.
    pub kind: Option<MessageKind>,
    /// Messages of this template, in any language.
    pub template: Option<String>,
    /// Messages with this reference of their sender.
    pub reference: Option<String>,
    /// Messages that are sent through this number.
    pub number: Option<NumberId>,
    /// Messages of this broadcast.
    pub broadcast: Option<BroadcastId>,
    /// Messages that were accepted at this moment or later.
    pub since: Option<Timestamp>,
    /// Messages that were accepted before this moment.
    pub until: Option<Timestamp>,
}

impl MessageFilter {
    fn takes(&self, state: &MessageState) -> bool {
        let template = state.template.as_ref().map(|template| &*template.name);
        let reference = state.notes.reference.as_deref();
        self.to.as_ref().is_none_or(|to| *to == state.to)
            && self.status.is_none_or(|status| status == state.status)
            && self.kind.is_none_or(|kind| kind == state.kind)
            && self.template.as_deref().is_none_or(|name| template == Some(name))
            && self.reference.as_deref().is_none_or(|wanted| reference == Some(wanted))
            && self.number.is_none_or(|number| state.known_number() == Some(number))
            && self.since.is_none_or(|since| since <= state.created_at)
            && self.until.is_none_or(|until| state.created_at < until)
    }

    /// Returns whether everything of this moment and before is too old.
    fn is_before(&self, at: Timestamp) -> bool {
        self.since.is_some_and(|since| at < since)
    }
}

/// A page of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagesListed {
    /// The messages, newest first.
    pub messages: Vec<MessageState>,
    /// The next page lists the messages before this one; `None`: there is none.
    pub next: Option<MessageId>,
}

impl Workspace {
    /// Returns the messages that match a filter, newest first: at most `limit`, before `after`.
    ///
    /// Messages of broadcasts are included if the filter names a recipient or a broadcast. A page
    /// looks at a bounded number of messages, so it can be empty before the end.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read, or when it cannot be written and new messages
    /// may be missing.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        after: Option<MessageId>,
        limit: usize,
    ) -> Result<MessagesListed, Unavailable> {
        self.write_messages().await?;
        self.scan(move |store, workspace| list(store, workspace, &filter, after, limit)).await
    }

    /// Returns the texts of messages in their order, each as its recipient reads it, without media.
    ///
    /// It is empty for an authentication template, for a message without text, and after the
    /// recipient's contact was deleted. The same holds for a single message after the contact got
    /// another phone.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn message_texts(
        &self,
        messages: &[MessageState],
    ) -> Result<Vec<Box<str>>, Unavailable> {
        let wanted = messages.iter().map(|it| (it.message_id, it.to.clone(), it.broadcast));
        let wanted: Vec<_> = wanted.collect();
        self.read(move |store, workspace| texts_of(store, workspace, wanted)).await
    }
}

fn texts_of(
    store: &dyn View,
    workspace: &WorkspaceId,
    wanted: Vec<(MessageId, PartyId, Option<BroadcastId>)>,
) -> Result<Vec<Box<str>>, StoreError> {
    let mut by_broadcast: BTreeMap<BroadcastId, Vec<MessageId>> = BTreeMap::new();
    for (id, _, broadcast) in &wanted {
        broadcast.iter().for_each(|of| by_broadcast.entry(*of).or_default().push(*id));
    }
    let mut of_broadcasts = HashMap::new();
    for (broadcast, ids) in by_broadcast {
        if let Some(of) = MessagesOf::read(store, workspace, broadcast)? {
            of_broadcasts.extend(of.texts(workspace, &ids)?);
        }
    }
    let mut text = |(id, to, broadcast): (MessageId, PartyId, Option<BroadcastId>)| match broadcast
    {
        None => texts::read(store, workspace, &to, id),
        // The audience of a broadcast stays, so its texts are hidden instead.
        Some(_) if id.timestamp() <= read_deleted_at(store, workspace, &to)? => Ok(Box::default()),
        Some(_) => Ok(of_broadcasts.remove(&id).unwrap_or_default()),
    };
    wanted.into_iter().map(&mut text).collect()
}

fn list(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &MessageFilter,
    after: Option<MessageId>,
    limit: usize,
) -> Result<MessagesListed, StoreError> {
    let until = filter.until.map(|until| MessageId::from_parts(until, 0));
    let before = [after, until].into_iter().flatten().min();
    let list = MessageSearch { store, workspace, filter, before };
    let mut sources = Vec::new();
    if filter.broadcast.is_none() {
        let mut walk = Walk::new(limit, LOOKED_AT_MAX, before);
        list.single(&mut walk)?;
        sources.push(walk);
    }
    let phone = filter.to.as_ref().and_then(PartyId::phone);
    let mut walk = Walk::new(limit, LOOKED_AT_MAX, before);
    match (filter.broadcast, phone) {
        (Some(id), _) => list.of_broadcast(id, &mut walk)?,
        (None, Some(phone)) => list.of_broadcasts(phone, &mut walk)?,
        (None, None) => {}
    }
    sources.push(walk);
    let (messages, next) = merged(sources, limit);
    Ok(MessagesListed { messages, next })
}

/// The walk of a page through one source.
type MessageWalk = Walk<MessageId, MessageState>;

/// The source of the messages, and the message before which the list continues.
#[derive(Clone, Copy)]
struct MessageSearch<'a> {
    store: &'a dyn View,
    workspace: &'a WorkspaceId,
    filter: &'a MessageFilter,
    before: Option<MessageId>,
}

impl MessageSearch<'_> {
    /// Adds a message that was looked at, if it matches.
    fn take(&self, walk: &mut MessageWalk, id: MessageId, state: Option<MessageState>) {
        walk.take(id, state.filter(|state| self.filter.takes(state)));
    }

    /// Looks at single messages.
    fn single(&self, walk: &mut MessageWalk) -> Result<(), StoreError> {
        if let Some(reference) = &self.filter.reference {
            return self.indexed(By::Reference(reference), walk);
        }
        match &self.filter.to {
            Some(to) => self.indexed(By::To(to), walk),
            None => self.scan(walk),
        }
    }

    /// Looks at those of the index.
    fn indexed(&self, by: By<'_>, walk: &mut MessageWalk) -> Result<(), StoreError> {
        let prefix = by.prefix(self.workspace);
        let mut before = self.before;
        loop {
            let at_once = walk.room() + 1;
            let ids = index::before(self.store, &prefix, before, at_once)?;
            for id in &ids {
                if self.filter.is_before(id.timestamp()) || !walk.goes_on(1) {
                    return Ok(());
                }
                self.take(walk, *id, MessageState::read(self.store, self.workspace, *id)?);
            }
            before = ids.last().copied();
            if ids.len() < at_once {
                return Ok(());
            }
        }
    }

    /// Looks at all messages, one by one.
    fn scan(&self, walk: &mut MessageWalk) -> Result<(), StoreError> {
        let prefix = MessageState::prefix(self.workspace);
        let from = self.before.map(|id| MessageState::key(self.workspace, id));
        let mut damage = None;
        let (table, direction) = (Table::Messages, Direction::Backward);
        self.store.scan(table, &prefix, from.as_deref(), direction, &mut |key, value| {
            // Keys with 16 bytes are messages; others have a letter behind and are parts of a
            // message.
            let Some(id) = key[prefix.len()..].try_into().ok().map(MessageId::from_bytes) else {
                return ControlFlow::Continue(());
            };
            if Some(id) == self.before {
                return ControlFlow::Continue(());
            }
            if self.filter.is_before(id.timestamp()) || !walk.goes_on(1) {
                return ControlFlow::Break(());
            }
            match MessageState::decode(id, value) {
                Ok(state) => self.take(walk, id, Some(state)),
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        damage.map_or(Ok(()), Err)
    }

    /// Looks at the messages of all broadcasts to a phone.
    fn of_broadcasts(&self, phone: Phone, walk: &mut MessageWalk) -> Result<(), StoreError> {
        let mut before = self.before.map(newest_before);
        loop {
            let ids = ids_before(self.store, self.workspace, before, BROADCASTS_AT_ONCE)?;
            for id in &ids {
                // A broadcast newer than the list's position has no such message.
                if self.before.is_some_and(|before| before < message_id(*id, 0)) {
                    continue;
                }
                let at = id.timestamp().plus(AUDIENCE_WRITTEN);
                if self.filter.is_before(at) || !walk.goes_on(AS_A_BROADCAST) {
                    return Ok(());
                }
                self.of_phone(*id, phone, walk)?;
            }
            before = ids.last().copied();
            if ids.len() < BROADCASTS_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Looks at the message of a broadcast to a phone, if there is one.
    fn of_phone(
        &self,
        id: BroadcastId,
        phone: Phone,
        walk: &mut MessageWalk,
    ) -> Result<(), StoreError> {
        let place = place_of(self.store, self.workspace, id, phone)?;
        let place = place.filter(|place| self.is_before(message_id(id, *place)));
        let found = match place {
            Some(_) => MessagesOf::read(self.store, self.workspace, id)?,
            None => None,
        };
        let state = match (found, place) {
            (Some(of), Some(place)) => of.message(place)?,
            _ => None,
        };
        self.take(walk, message_id(id, place.unwrap_or(0)), state);
        Ok(())
    }

    fn is_before(&self, id: MessageId) -> bool {
        self.before.is_none_or(|before| id < before)
    }

    /// Looks at the messages of one broadcast, the last recipient first.
    fn of_broadcast(&self, id: BroadcastId, walk: &mut MessageWalk) -> Result<(), StoreError> {
        if let Some(to) = &self.filter.to {
            let Some(phone) = to.phone() else { return Ok(()) };
            return self.of_phone(id, phone, walk);
        }
        let Some(of) = MessagesOf::read(self.store, self.workspace, id)? else { return Ok(()) };
        for window in (0..of.windows()).rev() {
            // The messages of a window are behind its first one.
            if !self.is_before(message_id(id, window * WINDOW)) {
                continue;
            }
            let rows = of.window(window)?;
            for (index, state) in rows.into_iter().rev() {
                let id = message_id(id, index);
                if self.is_before(id) {
                    if !walk.goes_on(1) {
                        return Ok(());
                    }
                    self.take(walk, id, state);
                }
            }
        }
        Ok(())
    }
}

/// Returns an id after that of every broadcast with messages before this one.
fn newest_before(message: MessageId) -> BroadcastId {
    let mut bytes = *message.as_bytes();
    bytes[12..].fill(u8::MAX);
    BroadcastId::from_bytes(bytes)
}

#[cfg(test)]
mod tests;
