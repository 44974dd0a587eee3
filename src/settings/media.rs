//! The settings of files.

use std::time::Duration;

use postrider_actors::MediaFetch;

use super::declare::{SectionSpec, section};
use super::error::{Refusal, SettingsError};
use super::value;

section! {
    /// Files that messages are sent with, or came with.
    Media = "media"
    /// How long they are kept.
    kept_days: Duration = value::days, "a whole number from 1 to 3650";
    /// Most bytes of one workspace.
    kept_bytes_max: u64 = value::whole(0..=u64::MAX), "a whole number, 0 or more";
    /// When the content of one that came in is got.
    fetch: MediaFetch = value::media_fetch, "\"always\" or \"on_demand\"";
}
