//! Contacts: made, changed, deleted, listed, searched.
//!
//! A contact lives in the store and is read from there. What it is listed and searched by is written
//! in its own commit, so the two are never apart.

mod change;
mod chunk;
mod create;
pub mod creation_limit;
mod facets;
mod filter;
mod index;
mod list;
mod live;
mod rebuild;
mod record;
mod segments;
mod texts;
mod walk;
#[cfg(any(test, feature = "testing"))]
mod whole;

pub use change::{DeleteContactError, UpdateContactError};
pub use create::{ContactMade, CreateContactError};
pub use filter::ContactFilter;
pub use list::{ContactsPage, ReadContactError};
pub use rebuild::{RebuildError, see_to_index};
pub use record::{Contact, ContactChange, NewContact};
pub use segments::{CreateSegmentError, SEGMENTS_MAX, Segment, SegmentError, SegmentsPage};
pub use walk::ContactsWalk;

pub(super) use change::find as find_contact;
pub(super) use create::{create, holder};
pub(super) use record::{place_of, read as read_contact};

#[cfg(any(test, feature = "testing"))]
pub use whole::whole;

use postrider_domain::{EventKind, PublicEvent};

use super::command::Context;

/// Tells what happened to a contact.
fn tell(context: &mut Context<'_>, kind: EventKind, contact: &Contact) {
    let event = PublicEvent::Other { kind, data: contact.told().to_string().into() };
    context.effects.tell(context.now(), event);
}
