//! Pure: one-time passwords: their requests, limits, delivery and retries.

pub(crate) mod chain;
pub(crate) mod chain_plan;
pub(crate) mod chain_state;
pub(crate) mod conversion_counts;
mod conversion_guard;
pub mod day_counts;
mod decisions;
pub(crate) mod delivery;
pub(crate) mod ended;
pub mod extras;
pub(crate) mod inbound;
mod index;
pub(crate) mod languages;
pub(crate) mod pending;
pub mod pumping_guard;
pub mod requests;
pub mod rolling_window;
pub mod types;
