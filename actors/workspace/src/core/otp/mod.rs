//! Pure: one-time passwords: their requests, limits, delivery and retries.

pub(crate) mod cancel;
mod compact_index;
pub(crate) mod conversion_counts;
mod conversion_guard;
pub mod day_counts;
pub(crate) mod delivery;
pub(crate) mod ended_record;
pub mod extras;
pub(crate) mod failover;
pub(crate) mod failover_plan;
pub(crate) mod failover_state;
pub(crate) mod inbound;
pub(crate) mod languages;
mod limits;
pub(crate) mod message;
pub(crate) mod pending;
pub mod pumping_guard;
pub(crate) mod read;
pub mod requests;
pub(crate) mod resend;
pub mod rolling_window;
pub(crate) mod send;
pub mod types;
pub(crate) mod verify;
