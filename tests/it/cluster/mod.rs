//! Nodes of a cluster as real processes, over a real `nats-server`.
//!
//! Every answer of a node stays true when any process is killed. The same node started again, or
//! another one, knows it.

mod apart;
mod audits;
mod backup;
mod callbacks;
mod contents;
mod drain;
mod encrypted;
mod engine_time;
mod failover;
mod files;
mod import;
mod jetstream;
mod keys;
mod limits;
mod load;
mod metrics;
mod nats;
mod no_room;
mod nodes;
mod one;
mod operators;
mod partition;
mod people;
mod repair;
mod rolling;
mod sending;
mod servers;
mod standby;
mod standstill;
mod state;
mod streams;
mod three;
mod trim;
mod troubles;
mod unheard;
mod ways;
