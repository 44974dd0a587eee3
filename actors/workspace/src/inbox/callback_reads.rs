//! Reads the records that a callback's items need before the actor processes the items.
//!
//! It follows the reads of the processing, and need not be complete. The actor itself reads records
//! that were left out or changed meanwhile, within its bound.

use std::ops::ControlFlow;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use postrider_broadcast::record::{WINDOW, counts_key, record_key, window_key};
use postrider_channel::Origin;
use postrider_channel::callback::{Inbound, StatusUpdate};
use postrider_domain::{
    ConversationId, MessageId, NumberId, PartyId, Phone, Timestamp, WorkspaceId,
};
use postrider_number::record::NumberInfo;
use postrider_store::view::codec;
use postrider_store::{Direction as Order, StoreError, Table, View};
use serde::Deserialize;

use crate::broadcasts::replies::{LiveBroadcasts, ReplyLookup, look_up};
use crate::contacts::{Contact, known_names, phone_aliases, record};
use crate::conversations::Direction;
use crate::conversations::record::messages_prefix;
use crate::core::records;
use crate::core::view::{ReadAhead, Reader, Reading};
use crate::inbox::callback_items::{Item, PossibleReply, received_key};
use crate::messages::index::called_by_channel;
use crate::messages::{MessageState, service_window};
use crate::{broadcasts, contacts, conversations, suppressions};

/// The time in which a person may answer a message of a broadcast, or react to it.
const NAMED_FOR: Duration = Duration::from_secs(31 * 24 * 3600);

/// A longer text is not a word by which somebody opts out.
const WORD_BYTES_MAX: usize = 64;

/// The maximum number of a conversation's newest messages that are searched for another one.
const LOOKED_AT_MAX: usize = 32;

/// The records that were read for a command.
#[derive(Debug)]
pub(super) struct CallbackReads {
    pub(super) records: ReadAhead,
    pub(super) replies: Replies,
}

/// The messages that the items may be replies to.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) live: LiveBroadcasts,
    found: HashMap<(Phone, Timestamp), ReplyLookup>,
    /// The messages that others are about, by the provider's ids of the others.
    about: HashMap<Box<str>, MessageId>,
}

impl Replies {
    /// Returns the state before the originals of replies have been looked up.
    pub(super) fn unknown(live: LiveBroadcasts) -> Self {
        Self { live, ..Self::default() }
    }

    /// Returns the message that this one answers or reacts to, if it was found.
    pub(super) fn about(&self, inbound: &Inbound) -> Option<MessageId> {
        self.about.get(&inbound.provider_id).copied()
    }

    /// Returns the result of the look-up for a message by this phone at that moment.
    ///
    /// `None` if it has not been looked up.
    pub(super) fn of(&self, phone: Phone, at: Timestamp) -> Option<&ReplyLookup> {
        self.found.get(&(phone, at))
    }
}

/// Reads for these items, and for a message whose writer the actor has identified.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(super) fn read<'a>(
    (store, workspace): (&dyn View, &WorkspaceId),
    reading: Reading,
    now: Timestamp,
    items: impl Iterator<Item = &'a Item>,
    wanted: Option<PossibleReply>,
) -> Result<CallbackReads, StoreError> {
    let wanted_of = wanted.as_ref().map(|wanted| (wanted.phone, wanted.at));
    let live = match wanted {
        Some(wanted) => wanted.live,
        None => LiveBroadcasts::read(store, workspace, now)?,
    };
    let mut reads = Reads {
        workspace,
        reader: Reader::new(store, reading),
        lines: HashMap::new(),
        seen: HashSet::new(),
        written: Vec::new(),
        replies: Replies::unknown(live),
    };
    for item in items {
        reads.item(item)?;
    }
    if let Some((phone, at)) = wanted_of {
        reads.reply(phone, at)?;
    }
    Ok(CallbackReads { records: reads.reader.done(), replies: reads.replies })
}

struct Reads<'a> {
    workspace: &'a WorkspaceId,
    reader: Reader<'a>,
    /// The key of each number's windows.
    lines: HashMap<NumberId, NumberId>,
    /// Names whose records are read.
    seen: HashSet<PartyId>,
    /// The messages of the callback so far: the provider's ids, and their writers.
    written: Vec<(Box<str>, Vec<PartyId>, MessageId)>,
    replies: Replies,
}

impl Reads<'_> {
    fn item(&mut self, item: &Item) -> Result<(), StoreError> {
        match item {
            Item::Report(_, report) => self.report(report),
            Item::Inbound(number, inbound) => self.inbound(*number, inbound),
            Item::IdentityChange(number, notice) => {
                let line = self.line(*number)?;
                let key = received_key(self.workspace, Some(notice.message_id(line)));
                self.reader.get(Table::Received, key)?;
                let names = notice.old.parties().into_iter().chain(notice.new.parties());
                self.people(*number, names.collect(), true).map(drop)
            }
            Item::Choice(choice) => {
                for name in self.known(choice.parties.clone())?.1 {
                    self.opt_out(&name)?;
                }
                Ok(())
            }
            Item::Template(..) | Item::Facts(..) | Item::Fault(..) | Item::Ignored(..) => Ok(()),
        }
    }

    fn report(&mut self, report: &StatusUpdate) -> Result<(), StoreError> {
        let workspace = self.workspace;
        let mut to = report.to.map(PartyId::from);
        match report.origin {
            Origin::Otp { .. } => {}
            Origin::Message(id) => {
                let key = MessageState::key(workspace, id);
                let state = self.reader.get(Table::Messages, key)?;
                let state = state.map(|bytes| MessageState::decode(id, &bytes)).transpose()?;
                to = to.or(state.map(|state| state.to));
            }
            Origin::Broadcast { broadcast, index } => {
                self.reader.get(Table::Broadcasts, record_key(workspace, broadcast))?;
                self.reader.get(Table::Broadcasts, counts_key(workspace, broadcast))?;
                let key = window_key(workspace, broadcast, index / WINDOW);
                self.reader.get(Table::BroadcastReports, key)?;
            }
        }
        let id = report.user_id.clone().map(PartyId::from);
        let known_as = report.known_as.map(PartyId::from);
        let names = to.into_iter().chain(known_as).chain(id);
        self.known(names.collect()).map(drop)
    }

    fn inbound(&mut self, number: NumberId, inbound: &Inbound) -> Result<(), StoreError> {
        let id = inbound.message_id(self.line(number)?);
        self.reader.get(Table::Received, received_key(self.workspace, Some(id)))?;
        let from = inbound.from.map(PartyId::from);
        let names = from.into_iter().chain(inbound.user_id.clone().map(PartyId::from));
        let names: Vec<_> = names.collect();
        let people = self.people(number, names.clone(), false)?;
        self.about(number, inbound, (names, &people))?;
        if inbound.text.len() <= WORD_BYTES_MAX {
            for name in &people {
                self.opt_out(name)?;
            }
        }
        for phone in people.iter().filter_map(PartyId::phone) {
            self.reply(phone, inbound.at)?;
        }
        Ok(())
    }

    /// Finds the message that this one is about: in the conversation or in the same callback.
    fn about(
        &mut self,
        number: NumberId,
        inbound: &Inbound,
        (writer, people): (Vec<PartyId>, &[PartyId]),
    ) -> Result<(), StoreError> {
        let line = self.line(number)?;
        let mut found = None;
        if let Some(name) = &inbound.about {
            let same = |(of, by, _): &&(Box<str>, Vec<PartyId>, _)| of == name && *by == writer;
            found = self.written.iter().find(same).map(|(.., id)| *id);
            if found.is_none() {
                let ours = called_by_channel(self.reader.store(), self.workspace, name)?;
                let is_to_writer =
                    |it: &MessageState| writer.contains(&it.to) || people.contains(&it.to);
                found = ours.filter(is_to_writer).map(|it| it.message_id);
            }
            for contact in self.known(writer.clone())?.0 {
                let (reader, workspace) = (&mut self.reader, self.workspace);
                let of = conversations::read_ahead(reader, workspace, contact.place())?;
                if let (None, Some(of)) = (found, of) {
                    found = reply_target((reader.store(), workspace), of, name)?;
                }
            }
        }
        if let (None, Some(name)) = (found, &inbound.about) {
            let since = inbound.at.minus(NAMED_FOR);
            let all = writer.iter().chain(people).filter_map(PartyId::phone);
            for phone in all.collect::<HashSet<_>>() {
                if found.is_none() {
                    let reader = (self.reader.store(), self.workspace);
                    found = broadcasts::called_by_channel(reader, phone, name, since)?;
                }
            }
        }
        self.replies.about.extend(found.map(|id| (inbound.provider_id.clone(), id)));
        self.written.push((inbound.provider_id.clone(), writer, inbound.message_id(line)));
        Ok(())
    }

    /// Looks up the messages that this one may be a reply to.
    fn reply(&mut self, phone: Phone, at: Timestamp) -> Result<(), StoreError> {
        if !self.replies.live.is_empty() && self.replies.of(phone, at).is_none() {
            let live = &self.replies.live;
            let found = look_up(&mut self.reader, self.workspace, (phone, at), live)?;
            self.replies.found.insert((phone, at), found);
        }
        Ok(())
    }

    /// Reads the contacts, conversations and windows of the people with these names.
    ///
    /// Returns their names.
    fn people(
        &mut self,
        number: NumberId,
        names: Vec<PartyId>,
        is_notice: bool,
    ) -> Result<Vec<PartyId>, StoreError> {
        let (contacts, names) = self.known(names)?;
        for contact in &contacts {
            conversations::read_ahead(&mut self.reader, self.workspace, contact.place())?;
        }
        let joins = contacts.len() > 1 || is_notice;
        if joins || contacts.iter().any(|contact| names.iter().any(|it| !is_of(it, contact))) {
            for contact in &contacts {
                contacts::read_ahead(&mut self.reader, self.workspace, contact.place())?;
                conversations::read_all_ahead(&mut self.reader, self.workspace, contact.place())?;
            }
            for name in &names {
                self.opt_out(name)?;
            }
        }
        let line = self.line(number)?;
        for name in &names {
            let key = service_window::window_key(self.workspace, line, name);
            self.reader.get(Table::Windows, key)?;
        }
        Ok(names)
    }

    /// Reads the contacts with these names. Returns them, each once, and all their names.
    fn known(&mut self, names: Vec<PartyId>) -> Result<(Vec<Contact>, Vec<PartyId>), StoreError> {
        let (mut contacts, mut all): (Vec<Contact>, Vec<PartyId>) = (Vec::new(), Vec::new());
        let (mut rest, mut is_news) = (names, false);
        while let Some(name) = rest.pop() {
            if all.contains(&name) {
                continue;
            }
            if let PartyId::Phone(phone) = name {
                let written_to =
                    phone_aliases::read_ahead(&mut self.reader, self.workspace, phone)?;
                rest.extend(written_to.map(PartyId::from));
            }
            let contact = contacts::read_holder_ahead(&mut self.reader, self.workspace, &name)?;
            let proven = known_names::read_ahead(&mut self.reader, self.workspace, &name)?;
            let is_unproven = proven.is_none() && name.user_id().is_some();
            if contact.is_none() {
                self.unknown(&name)?;
            }
            all.push(name);
            if let Some(phone) = proven.map(PartyId::from)
                && !all.contains(&phone)
                && !rest.contains(&phone)
            {
                // The person writes without the phone: it may have changed since.
                self.unknown(&phone)?;
                rest.push(phone);
            } else if is_unproven {
                is_news = true;
            }
            let new = contact.filter(|contact| contacts.iter().all(|known| known.id != contact.id));
            rest.extend(new.iter().flat_map(Contact::parties));
            contacts.extend(new);
        }
        for name in all.iter().filter(|_| is_news) {
            self.unknown(name)?;
        }
        Ok((contacts, all))
    }

    /// Reads the reports about a name that contacts do not settle.
    fn unknown(&mut self, name: &PartyId) -> Result<(), StoreError> {
        if !self.seen.insert(name.clone()) {
            return Ok(());
        }
        let (workspace, reader) = (self.workspace, &mut self.reader);
        reader.get(Table::Aliases, known_names::moved_key(workspace, name))?;
        reader.get(Table::Aliases, phone_aliases::deleted_key(workspace, name))?;
        reader.get(Table::Contacts, record::next_key(workspace)).map(drop)
    }

    fn opt_out(&mut self, name: &PartyId) -> Result<(), StoreError> {
        suppressions::read_ahead(&mut self.reader, self.workspace, name)
    }

    /// Returns the key of a number's windows.
    fn line(&mut self, number: NumberId) -> Result<NumberId, StoreError> {
        if let Some(line) = self.lines.get(&number) {
            return Ok(*line);
        }
        let key = records::number_key(self.workspace, number);
        let known = self.reader.store().get(Table::Workspaces, &key)?;
        let known = known.map(|json| codec::decode::<NumberInfo>(&json)).transpose()?;
        let line = known.map_or(number, |known| known.line());
        self.lines.insert(number, line);
        Ok(line)
    }
}

fn is_of(name: &PartyId, contact: &Contact) -> bool {
    match name {
        PartyId::Phone(phone) => contact.phone == Some(*phone),
        PartyId::User(id) => contact.ids().any(|known| known == id),
    }
}

/// The fields of a message that are read, whatever else it has.
#[derive(Deserialize)]
struct MessageNames {
    direction: Direction,
    #[serde(default)]
    provider_id: Option<Box<str>>,
}

/// Returns the message of a conversation that another one answers or reacts to.
///
/// Its channel names it by an id of its own. The index of messages has those of the workspace's
/// own; for others, and those to another name of the same person, the newest messages of the
/// conversation are looked through. One that is not found, or cannot be read, is not named.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
fn reply_target(
    (store, workspace): (&dyn View, &WorkspaceId),
    conversation: ConversationId,
    name: &str,
) -> Result<Option<MessageId>, StoreError> {
    // Numbers of the sandbox have no names of their own.
    let own = name.parse::<MessageId>().ok();
    let prefix = messages_prefix(workspace, conversation);
    let (mut looked_at, mut found, mut ours) = (0, None, Vec::new());
    store.scan(Table::Conversations, &prefix, None, Order::Backward, &mut |key, row| {
        looked_at += 1;
        let id = key.last_chunk().map(|id| MessageId::from_bytes(*id));
        if let Some((id, Ok(it))) = id.zip(Some(codec::decode::<MessageNames>(row))) {
            let is_it = own == Some(id) || it.provider_id.as_deref() == Some(name);
            found = Some(id).filter(|_| is_it);
            ours.extend(Some(id).filter(|_| it.direction == Direction::Out));
        }
        match found.is_none() && looked_at < LOOKED_AT_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    for id in ours {
        if found.is_some() {
            break;
        }
        let state = match MessageState::read(store, workspace, id) {
            Err(error @ StoreError::Failed(_)) => return Err(error),
            read => read.ok().flatten(),
        };
        let is_it = state.is_some_and(|state| state.provider_id.as_deref() == Some(name));
        found = Some(id).filter(|_| is_it);
    }
    Ok(found)
}
