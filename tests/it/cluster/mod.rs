//! Nodes of a cluster as real processes, over a real `nats-server`.
//!
//! Whatever a node answered stays true when any process is killed: the same node started again, or
//! another one, knows it.

mod backup;
mod drain;
mod engine_time;
mod failover;
mod import;
mod jetstream;
mod load;
mod metrics;
mod nats;
mod nodes;
mod one;
mod partition;
mod repair;
mod rolling;
mod standstill;
mod state;
mod three;
mod trim;
