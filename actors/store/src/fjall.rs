//! The view on disk uses fjall 3, an LSM tree with a write-ahead log.
//!
//! There is one keyspace per [`Table`](crate::Table), and one more for the mark.

mod base;
mod create;
mod failure;
mod log;
mod open;
mod options;
mod slot;
mod view;

#[cfg(test)]
mod tests;

pub use options::FjallOptions;
pub use view::FjallView;
