//! The base of every actor: time, randomness, secrets, supervision and flow control.
//!
//! Not an API: `postrider-actors` re-exports the parts for embedders, and this crate promises no
//! stability. Only [`clock`] reads the time, and only [`random`] draws random numbers.

pub mod clock;
pub mod directory;
pub mod flow;
pub mod hold;
pub mod random;
pub mod scan_pool;
pub mod sealed;
pub mod shared_bucket;
pub mod supervise;
pub mod task;
pub mod timer;
pub mod trace;

pub use clock::{Clock, Stopwatch};
pub use directory::{Directory, Slot, Undelivered};
pub use hold::{Hold, Tenure};
pub use scan_pool::{ScanError, ScanFigures, ScanPool};
pub use sealed::Secret;
pub use shared_bucket::{BucketState, SharedBucket};
pub use timer::{LazyTimer, Timer};
pub use trace::Traces;
