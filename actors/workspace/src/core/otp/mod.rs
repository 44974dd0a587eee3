//! Pure: one-time passwords: their requests, limits, delivery and retries.

mod compact_index;
pub(crate) mod conversion_counts;
mod conversion_guard;
pub mod day_counts;
mod decisions;
pub(crate) mod delivery;
pub(crate) mod ended_record;
pub mod extras;
pub(crate) mod failover;
pub(crate) mod failover_plan;
pub(crate) mod failover_state;
pub(crate) mod inbound;
pub(crate) mod languages;
pub(crate) mod pending;
pub mod pumping_guard;
pub mod requests;
pub mod rolling_window;
pub mod types;
