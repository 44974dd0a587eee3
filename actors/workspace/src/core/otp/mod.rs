//! Pure: one-time passwords: their requests, limits, delivery and retries.

pub mod country_counts;
pub mod day_counts;
mod decisions;
mod delivery;
pub(crate) mod ended;
mod index;
pub mod pumping_guard;
pub mod requests;
pub(crate) mod resends;
pub mod retries;
pub mod rolling_window;
pub mod types;
