//! Serves the engine of `postrider-actors` over HTTP: a thin edge, settings, and a command line.
//!
//! [`Server::start`] starts everything from [`settings::Settings`]. [`app`] is only the
//! interface, for an engine that was started elsewhere: a router to mount, or for [`serve`], the
//! accept loop.

mod banner;
mod boot;
mod cluster;
mod connection_timers;
mod connections;
pub mod csv_cell;
mod engine_options;
mod head_check;
mod http;
mod listeners;
pub mod logging;
mod metrics;
mod serve;
mod server;
pub mod settings;
mod tls;
mod traces;
mod ui;

pub use banner::Banner;
pub use boot::{
    BootError, CopyTarget, DemoError, Repair, StoppedData, check_stored, rebase_stored_clock,
    repair_stored, stored_clock, verify_stored_audit,
};
pub use cluster::{
    ClusterError, ClusterImported, ClusterMade, ClusterNode, NodeStopError, RepairOrder,
    RepairState, ShardBackup, ShardRepaired, backup_cluster, import_into_cluster, init_cluster,
    repair_shard,
};
pub use connections::PlaceLimits;
pub use http::{
    AdminToken, App, AppOptions, DashboardOptions, Drain, Peer, app, apps, openapi_document,
};
pub use metrics::Metrics;
pub use serve::{Lingering, ServeOptions, serve};
pub use server::{RunningServer, Server, StopError};
pub use tls::{Tls, TlsError, TlsFiles};
