//! The view on disk uses fjall 3, an LSM tree with a write-ahead log.
//!
//! There is one keyspace per [`Table`](crate::Table), and one more for the mark.

mod database;
mod log;
mod open;
mod view;

#[cfg(test)]
mod tests;

pub use database::FjallOptions;
pub use view::FjallView;
