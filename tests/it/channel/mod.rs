//! Channels: the Cloud API against a fake of it, its callbacks, numbers, and the sandbox.

pub mod callbacks;
pub mod cloud_api;
mod hidden_phones;
mod identity;
mod merged_contacts;
mod messages;
mod number_updates;
mod number_watch;
mod preferences;
mod rare_codes;
mod sandbox;
mod second_number;
mod template_sync;
