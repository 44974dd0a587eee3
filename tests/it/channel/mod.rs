//! Channels: the Cloud API against a fake of it, its callbacks, numbers, and the sandbox.

pub mod callbacks;
mod changed_names;
pub mod cloud_api;
mod held_back;
pub mod hidden_phones;
mod identity;
mod inbound_files;
mod merged_contacts;
mod messages;
mod number_facts;
mod number_updates;
pub mod number_watch;
pub mod pool;
mod pool_changes;
mod preferences;
mod rare_codes;
mod sandbox;
mod sandbox_files;
mod second_number;
mod shared_opt_outs;
mod template_news;
mod template_sync;
mod uploads;
mod wire;
