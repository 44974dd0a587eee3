//! The conversations of merged contacts: each keeps its id and its messages.
//!
//! The next message of a contact goes to the most recently active one of its channel. The others
//! are listed in [`Table::Conversations`] under `workspace ‖ 0 ‖ f ‖ place`: the version (1), then
//! their ids. No message moves, so the work of a merge does not depend on the number of messages.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, ConversationId, WorkspaceId};
use postrider_store::{StoreError, Table};

use crate::contacts::place_of;
use crate::core::command::Context;
use crate::core::view::Reader;
use crate::core::view::unreadable;

use crate::conversations::record::{
    Conversation, by_mail, contact_key, conversation_key, find, kind_of, of_place, prefix,
    read_ahead, read_mail_ahead,
};

const VERSION: u8 = 1;
const ID_BYTES: usize = 16;

/// All conversations with one contact.
#[derive(Default)]
pub(crate) struct OfContact {
    /// The conversations for the next messages, at most one of each channel.
    current: Vec<Conversation>,
    /// The conversations of contacts that were merged into this one, if a later one replaced them.
    former: Vec<Conversation>,
}

impl OfContact {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Conversation> {
        self.current.iter().chain(&self.former)
    }
}

fn list_key(workspace: &WorkspaceId, place: u64) -> Vec<u8> {
    [prefix(workspace, b'f').as_slice(), &place.to_be_bytes()].concat()
}

fn encode(ids: impl Iterator<Item = ConversationId>) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    ids.for_each(|id| bytes.extend_from_slice(id.as_bytes()));
    bytes
}

fn decode(bytes: &[u8]) -> Result<Vec<ConversationId>, StoreError> {
    let damaged = || StoreError::Damaged("ids of former conversations".into());
    let (version, ids) = bytes.split_first().ok_or_else(damaged)?;
    let (ids, rest) = ids.as_chunks::<ID_BYTES>();
    if *version != VERSION || !rest.is_empty() {
        return Err(damaged());
    }
    Ok(ids.iter().map(|id| ConversationId::from_bytes(*id)).collect())
}

/// Returns every conversation with the contact at a place.
pub(crate) fn all_of(context: &Context<'_>, place: u64) -> Result<OfContact, Unavailable> {
    let current = [of_place(context, place)?, by_mail(context, place)?];
    let list = context.get(Table::Conversations, &list_key(&context.core.id, place))?;
    let ids = list.map(|bytes| decode(&bytes)).transpose().map_err(unreadable)?;
    let mut former = Vec::new();
    for id in ids.unwrap_or_default() {
        former.extend(find(context, id)?);
    }
    Ok(OfContact { current: current.into_iter().flatten().collect(), former })
}

/// Reads every conversation with the contact at a place, for a command.
///
/// # Errors
/// [`StoreError`]: the store or the list cannot be read.
pub(crate) fn read_all_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    place: u64,
) -> Result<(), StoreError> {
    read_ahead(reader, workspace, place)?;
    read_mail_ahead(reader, workspace, place)?;
    let list = reader.get(Table::Conversations, list_key(workspace, place))?;
    for id in list.map(|bytes| decode(&bytes)).transpose()?.unwrap_or_default() {
        reader.get(Table::Conversations, conversation_key(workspace, id))?;
    }
    Ok(())
}

/// Gives a contact the conversations of another one, which was merged into it.
pub(crate) fn take_over(
    context: &mut Context<'_>,
    (survivor, other): (ContactId, ContactId),
    (own, others): (OfContact, OfContact),
) {
    let workspace = context.core.id.clone();
    context.delete(Table::Conversations, list_key(&workspace, place_of(other)));
    let mut former: Vec<_> = own.former.iter().chain(&others.former).map(|it| it.id).collect();
    for other in &others.current {
        let kind = kind_of(other);
        let key = contact_key(&workspace, kind, place_of(other.contact_id));
        context.delete(Table::Conversations, key);
        let rival = own.current.iter().find(|it| kind_of(it) == kind);
        let newest = match rival {
            Some(rival) if rival.active_at >= other.active_at => {
                former.push(other.id);
                continue;
            }
            Some(rival) => {
                former.push(rival.id);
                other.id
            }
            None => other.id,
        };
        let key = contact_key(&workspace, kind, place_of(survivor));
        context.put(Table::Conversations, key, newest.as_bytes().to_vec());
    }
    for other in others.current.into_iter().chain(others.former) {
        let key = conversation_key(&workspace, other.id);
        let other = Conversation { contact_id: survivor, ..other };
        context.put_json(Table::Conversations, key, &other);
    }
    if !former.is_empty() {
        let key = list_key(&workspace, place_of(survivor));
        context.put(Table::Conversations, key, encode(former.into_iter()));
    }
}

/// Deletes the list of the former conversations with the contact at a place, which is deleted.
pub(crate) fn forget_former(context: &mut Context<'_>, place: u64) {
    let key = list_key(&context.core.id, place);
    context.delete(Table::Conversations, key);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    #[test]
    fn the_ids_of_former_conversations_are_stored_as_ever() {
        let ids = [1, 2].map(|number| ConversationId::from_parts(AT, UNIQUE + number));
        let mut sheet = Sheet::default();
        sheet.text("list key", &list_key(&"acme".parse().unwrap(), 0x0102));
        sheet.bytes("ids", &encode(ids.into_iter()));
        sheet.is(expect![[r#"
            list key: acme\x00f\x00\x00\x00\x00\x00\x00\x01\x02
            ids: 01018bcfe5687b0102030405060708090b018bcfe5687b0102030405060708090c
        "#]]);
        assert_eq!(decode(&encode(ids.into_iter())), Ok(ids.to_vec()));
        for damaged in [&[][..], &[2], &[VERSION, 7]] {
            assert!(decode(damaged).is_err(), "{damaged:?}");
        }
    }
}
