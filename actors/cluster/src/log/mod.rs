//! The log of a shard over a stream that several servers keep.

mod appends;
mod fake;
mod owned;
mod replicated;
mod stream;

#[cfg(test)]
pub(crate) mod tests;

pub use appends::{AppendCounts, SETTLED};
pub(crate) use appends::{Appends, settle};
pub use fake::FakeStream;
pub(crate) use owned::LogReport;
pub use owned::OwnedLog;
pub use replicated::{ReplicatedLog, ReplicatedOptions};
pub use stream::{Ends, Published, Stream, StreamError};
