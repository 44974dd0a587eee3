//! Serves the engine of `postrider-actors` over HTTP: a thin edge, settings, and a command line.
//!
//! [`Server::start`] starts everything from [`settings::Settings`]. [`app`] is only the
//! interface, for an engine that was started elsewhere: a router to mount, or for [`serve`], the
//! accept loop.

// A node of a cluster is made of parts that a single node leaves alone.
#![cfg_attr(not(feature = "cluster"), allow(dead_code, unused_imports))]

mod banner;
mod boot;
#[cfg(feature = "cluster")]
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
#[cfg(not(feature = "otlp"))]
mod no_traces;
mod serve;
mod server;
pub mod settings;
mod tls;
#[cfg(feature = "otlp")]
mod traces;
mod ui;

pub use banner::Banner;
pub use boot::{
    BootError, CopyTarget, DemoError, Repair, StoppedData, check_stored, rebase_stored_clock,
    repair_stored, stored_clock, verify_stored_audit,
};
#[cfg(feature = "cluster")]
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

#[cfg(not(feature = "otlp"))]
use no_traces as traces;
