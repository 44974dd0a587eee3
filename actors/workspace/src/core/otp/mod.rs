//! Pure: one-time passwords: their requests, limits, delivery and retries.

pub(crate) mod caller_log;
pub(crate) mod cancel;
pub(crate) mod chain;
pub(crate) mod chain_messages;
pub(crate) mod chain_plan;
pub(crate) mod chain_state;
pub(crate) mod chain_tries;
pub mod country_counts;
pub mod day_counts;
mod decisions;
mod delivery;
pub(crate) mod ended;
pub(crate) mod ended_index;
pub mod extras;
pub(crate) mod figures;
pub(crate) mod inbound;
mod index;
pub(crate) mod languages;
pub(crate) mod pending;
mod play;
pub mod pumping_guard;
pub mod requests;
pub(crate) mod resends;
pub mod retries;
pub mod rolling_window;
pub mod types;
