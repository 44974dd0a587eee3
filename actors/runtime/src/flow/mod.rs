//! Pure: flow control, computed from moments and fractions that the caller passes in.
//!
//! Each part has one owner, who holds it without a lock.

pub mod backoff;
pub mod breaker;
pub mod concurrency;

pub use backoff::{Backoff, jittered};
pub use breaker::{BreakerPolicy, CircuitBreaker, Passage, Trip};
pub use concurrency::{AimdLimit, GradientLimit};
