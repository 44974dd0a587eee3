//! The administration: workspaces with their keys, credits, limits, numbers and webhooks.

mod webhooks;
mod workspaces;
