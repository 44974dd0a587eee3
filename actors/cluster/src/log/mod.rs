//! The log of a shard over a stream that several servers keep.

mod fake;
mod owned;
mod replicated;
mod stream;

#[cfg(test)]
pub(crate) mod tests;

pub use fake::FakeStream;
pub use owned::OwnedLog;
pub(crate) use owned::Told;
pub(crate) use replicated::settle;
pub use replicated::{ReplicatedLog, ReplicatedOptions};
pub use stream::{Ends, Published, Stream, StreamError};
