//! The view and the store on disk use fjall 3, an LSM tree with a write-ahead log.
//!
//! There is one keyspace per [`Table`](crate::Table). [`FjallView`] has one more for its mark.
//! [`FjallStore`] is the format before there was a log of its own: it is read to be converted.

mod base;
mod create;
mod failure;
mod journal_size;
mod log;
mod open;
mod options;
mod slot;
mod store;
mod view;

#[cfg(test)]
mod tests;

pub use options::FjallOptions;
pub use store::FjallStore;
pub use view::FjallView;
