//! Contacts: one, many at a time, lists, saved filters, and the limits on new ones.

mod batch;
mod bulk;
mod import;
mod import_phones;
mod lifecycle;
mod limits;
mod list;
mod segments;
mod texts;

pub use lifecycle::{CONTACTS, UNLIMITED, make, path};
