//! Operating a server: starts, connections, request checks, limits, overload and health.

mod bodies;
mod checks;
mod clock;
mod connection;
mod demo;
mod demo_kept;
mod disk_full;
mod edges;
mod files;
mod fuzz;
mod headers;
mod heads;
mod health;
pub mod idempotency;
mod kept;
mod keys;
mod limits;
mod listeners;
mod monitoring;
mod old_directory;
mod overload;
mod service;
mod start;
mod strangers;
pub mod tls;
mod tokens;
mod traces;
