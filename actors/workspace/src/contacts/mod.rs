//! Contacts: created, changed, deleted, listed, searched.
//!
//! A contact lives in the store and is read from there. Its index for lists and searches is written
//! in its own commit, so the two never differ.

mod change;
pub(crate) mod chosen;
mod chunk;
mod create;
pub(crate) mod created;
mod export;
mod filter;
#[cfg(test)]
pub(crate) mod golden;
pub(crate) mod index;
#[cfg(any(test, feature = "testing"))]
mod index_check;
pub(crate) mod known_names;
pub(crate) mod list;
mod merge;
mod occupancy;
pub(crate) mod record;
mod search_index;
mod segment_index;
mod segments;
mod sort;
mod tags;
mod upsert;

pub use chosen::ChosenContacts;
pub use create::CreateContactError;
pub use export::ContactsWalk;
pub use filter::ContactFilter;
pub use list::{ContactsPage, ReadContactError, SortContactsError};
pub use record::{Contact, ContactChange, NewContact};
pub use segments::{CreateSegmentError, SEGMENTS_MAX, Segment, SegmentError, SegmentsPage};
pub use sort::{ContactOrder, ContactSort, SORTED_MAX};
pub use tags::TagCount;
pub use upsert::{ContactMade, ContactRowMade, ContactWritten, NewContactRow, OnConflict};

pub(crate) use change::{find as find_contact, put_changed};
pub(crate) use create::{
    ChannelNames, create, create_known, holder, holders_place, parties_of, party_holder,
    user_holder,
};
pub(crate) use merge::{
    MERGED_MAX, combined, forget_merged, merged_ids, read as read_contact, read_ahead, take_over,
};
pub(crate) use record::{place_of, read_holder_ahead};
pub(crate) use search_index::has as contact_has;

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
