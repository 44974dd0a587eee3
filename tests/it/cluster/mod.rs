//! Nodes of a cluster as real processes, over a real `nats-server`.
//!
//! Whatever a node answered stays true when any process is killed: the same node started again, or
//! another one, knows it.

mod engine_time;
mod failover;
mod nats;
mod nodes;
mod one;
