//! The way into a workspace's actor: admission, messages and where the actor is.

pub mod admission;
pub mod errand;
pub mod message;
pub mod slot;
