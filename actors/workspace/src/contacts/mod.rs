//! Contacts: created, changed, deleted, listed, searched.
//!
//! A contact lives in the store and is read from there. Its index for lists and searches is written
//! in its own commit, so the two never differ.

pub(crate) mod create;
pub(crate) mod filter;
#[cfg(test)]
pub(crate) mod golden;
pub(crate) mod identity;
pub(crate) mod index;
#[cfg(any(test, feature = "testing"))]
mod index_check;
pub(crate) mod known_names;
pub(crate) mod list;
mod merge;
mod occupancy;
pub(crate) mod phone_aliases;
pub(crate) mod record;
mod segments;
mod sort;
mod upsert;

pub use create::CreateContactError;
pub use filter::{ChosenContacts, ContactFilter};
pub use list::{ContactsPage, ContactsWalk, ReadContactError, SortContactsError, TagCount};
pub use record::{Contact, ContactChange, NewContact};
pub use segments::{CreateSegmentError, SEGMENTS_MAX, Segment, SegmentError, SegmentsPage};
pub use sort::{ContactOrder, ContactSort, SORTED_MAX};
pub use upsert::{ContactMade, ContactRowMade, ContactWritten, NewContactRow, OnConflict};

pub(crate) use create::{
    ChannelNames, create, create_known, find_contact, holder, holders_place, parties_of,
    party_holder, put_changed, user_holder,
};
pub(crate) use index::contact_has;
pub(crate) use merge::{
    MERGED_MAX, combined, forget_merged, merged_ids, read_ahead, read_contact, take_over,
};
pub(crate) use record::{place_of, read_holder_ahead};

#[cfg(any(test, feature = "testing"))]
pub use index_check::whole;

use postrider_domain::EventData;
use postrider_domain::event::contact::ContactData;

use crate::core::command::Context;

/// Emits an event about a contact.
pub(crate) fn emit(
    context: &mut Context<'_>,
    event: fn(ContactData) -> EventData,
    contact: &Contact,
) {
    context.effects.emit(context.now(), event(contact.event_data()));
}
