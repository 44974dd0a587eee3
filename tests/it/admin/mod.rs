//! The administration: workspaces with their keys, credits, limits, numbers and webhooks.

mod audit;
mod audit_cli;
mod audit_readings;
mod codes_cli;
mod numbers;
mod quotas;
mod removal;
mod system;
mod webhooks;
mod workspaces;
