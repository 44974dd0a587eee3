//! The way into a workspace's actor: admission, messages and the actor's placement.

pub mod admission;
pub mod command_batch;
pub mod errand;
mod ignored_items;
pub mod message;
pub(crate) mod output_gate;
pub mod release;
pub mod slot;
pub mod trace;
pub mod watching;
