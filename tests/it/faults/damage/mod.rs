//! Files that are missing or are not what was written. Each test writes megabytes of log first: the
//! second ring.

mod snapshots;
mod view;
