//! The store of file contents, and the transfers in progress.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dashmap::DashMap;
use postrider_domain::{MediaId, NumberId, WorkspaceId};
use postrider_store::blobs::BlobStore;
use tokio::sync::{Mutex, Semaphore};

use crate::keyed_permits::KeyedPermits;

/// The maximum number of simultaneous uploads for a number.
const UPLOADS_OF_ONE_MAX: usize = 4;
/// The maximum number of simultaneous downloads, for a workspace and in total.
///
/// The downloads of a workspace wait for each other first, so one with slow files takes few of the
/// others' places.
const FETCHES_OF_ONE_MAX: usize = 2;
const FETCHES_MAX: usize = 32;

/// The retention and limits of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaOptions {
    /// The time for which they are kept.
    pub kept_for: Duration,
    /// The maximum bytes of each workspace.
    pub bytes_max: u64,
    /// The time of the download of inbound contents.
    pub fetch: MediaFetch,
}

/// The time at which the content of an inbound file is downloaded from the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MediaFetch {
    /// As soon as it arrives.
    #[default]
    Always,
    /// At the first request for it.
    OnDemand,
}

impl Default for MediaOptions {
    fn default() -> Self {
        let kept_for = Duration::from_secs(30 * 24 * 3600);
        Self { kept_for, bytes_max: 10 << 30, fetch: MediaFetch::default() }
    }
}

/// Files: their contents, retention and transfers.
#[derive(Debug)]
pub struct MediaFiles {
    /// The store of contents; `None`: no contents are kept.
    pub blobs: Option<BlobStore>,
    /// Their retention and limits.
    pub options: MediaOptions,
    /// The running uploads to the channel, by file and number.
    pub(crate) uploads: DashMap<(MediaId, NumberId), Arc<Mutex<()>>>,
    /// The permits to upload for a number.
    pub(crate) upload_places: KeyedPermits<NumberId>,
    /// The running downloads from the channel.
    pub(crate) fetches: DashMap<MediaId, Arc<Mutex<()>>>,
    /// The permits to download a content for a workspace, taken before the next one.
    pub(crate) fetch_turns: KeyedPermits<WorkspaceId>,
    /// The permits to download a content.
    pub(crate) fetch_places: Semaphore,
    /// The bytes of files that a workspace is receiving.
    pub(crate) under_way: DashMap<WorkspaceId, u64>,
    /// The bytes of the files of all workspaces at the last count.
    pub bytes: AtomicU64,
}

impl MediaFiles {
    /// Returns the state of files with this store of contents.
    #[must_use]
    pub fn new(blobs: Option<BlobStore>, options: MediaOptions) -> Self {
        Self {
            blobs,
            options,
            uploads: DashMap::new(),
            upload_places: KeyedPermits::new(UPLOADS_OF_ONE_MAX),
            fetches: DashMap::new(),
            fetch_turns: KeyedPermits::new(FETCHES_OF_ONE_MAX),
            fetch_places: Semaphore::new(FETCHES_MAX),
            under_way: DashMap::new(),
            bytes: AtomicU64::new(0),
        }
    }
}
