//! Pure: one-time passwords: their requests, limits, delivery and retries.

pub(crate) mod caller_log;
pub(crate) mod cancel;
pub mod country_counts;
pub mod day_counts;
mod decisions;
mod delivery;
pub(crate) mod ended;
pub mod extras;
mod index;
pub mod pumping_guard;
pub mod requests;
pub(crate) mod resends;
pub mod retries;
pub mod rolling_window;
pub mod types;
