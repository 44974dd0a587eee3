//! Pure: one-time passwords: their requests, limits, delivery and retries.

pub mod country_counts;
mod decisions;
mod delivery;
mod index;
pub mod pumping_guard;
pub mod requests;
pub(crate) mod resends;
pub mod retries;
pub mod rolling_window;
pub mod types;
