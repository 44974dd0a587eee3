//! The way into a workspace's actor: admission, messages and the actor's placement.

pub mod admission;
pub mod command_batch;
mod ignored_items;
pub mod message;
pub mod output_gate;
pub mod slot;
pub mod watching;
