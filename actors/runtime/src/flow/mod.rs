//! Pure: flow control, computed from moments and fractions that the caller passes in.
//!
//! Each part has one owner, which uses it without a lock. Threads share a
//! [`SharedBucket`](crate::shared_bucket::SharedBucket) instead, which is not here as it reads the
//! clock.

pub mod backoff;
pub mod breaker;
pub(crate) mod clock_discipline;
pub mod concurrency;
pub mod scan_queue;
pub mod token_bucket;

pub use backoff::{Backoff, RestartPolicy, jittered};
pub use breaker::{BreakerPolicy, CircuitBreaker, Passage, Trip};
pub use concurrency::{AimdLimit, GradientLimit};
pub use scan_queue::{ScanBounds, ScanQueue};
pub use token_bucket::{Rate, TokenBucket};
