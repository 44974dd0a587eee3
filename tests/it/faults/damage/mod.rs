//! Files that are missing or have changed. Each test writes megabytes of log first, so it is in the
//! second ring.

mod snapshots;
mod view;
