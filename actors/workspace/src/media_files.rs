//! Where the contents of files are, and which of them are on their way.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{Mutex, Semaphore};

use postrider_domain::{MediaId, NumberId, WorkspaceId};
use postrider_store::blobs::BlobStore;

use crate::places::Places;

/// Most files that are uploaded behind a number at once.
const UPLOADS_OF_ONE_MAX: usize = 4;
/// Most contents that are got from the channel at once, for a workspace and for all of them. Those
/// of a workspace wait for each other first, so one with slow files has few of the others' places.
const FETCHES_OF_ONE_MAX: usize = 2;
const FETCHES_MAX: usize = 32;

/// How files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaOptions {
    /// How long.
    pub kept_for: Duration,
    /// How many bytes of each workspace.
    pub bytes_max: u64,
    /// When the content of one that came in is got.
    pub fetch: MediaFetch,
}

/// When the content of a file that came in is got from the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MediaFetch {
    /// As soon as it came.
    #[default]
    Always,
    /// When somebody asks for it first.
    OnDemand,
}

impl Default for MediaOptions {
    fn default() -> Self {
        let kept_for = Duration::from_secs(30 * 24 * 3600);
        Self { kept_for, bytes_max: 10 << 30, fetch: MediaFetch::default() }
    }
}

/// Files: where their contents are, and how they are kept.
#[derive(Debug)]
pub struct MediaFiles {
    /// Where the contents are; `None`: none are kept.
    pub blobs: Option<BlobStore>,
    /// How they are kept.
    pub options: MediaOptions,
    /// Those that are being uploaded to the channel, behind which number.
    pub(crate) uploads: DashMap<(MediaId, NumberId), Arc<Mutex<()>>>,
    /// Leave to upload behind a number.
    pub(crate) upload_places: Places<NumberId>,
    /// Those whose contents are being got from the channel.
    pub(crate) fetches: DashMap<MediaId, Arc<Mutex<()>>>,
    /// Leave to get a content of a workspace, which comes before the next.
    pub(crate) fetch_turns: Places<WorkspaceId>,
    /// Leave to get a content.
    pub(crate) fetch_places: Semaphore,
    /// Bytes of the files that are on their way to a workspace.
    pub(crate) under_way: DashMap<WorkspaceId, u64>,
    /// Bytes of the files of all workspaces, as they were counted last.
    pub bytes: AtomicU64,
}

impl MediaFiles {
    /// Files whose contents are there.
    #[must_use]
    pub fn new(blobs: Option<BlobStore>, options: MediaOptions) -> Self {
        Self {
            blobs,
            options,
            uploads: DashMap::new(),
            upload_places: Places::new(UPLOADS_OF_ONE_MAX),
            fetches: DashMap::new(),
            fetch_turns: Places::new(FETCHES_OF_ONE_MAX),
            fetch_places: Semaphore::new(FETCHES_MAX),
            under_way: DashMap::new(),
            bytes: AtomicU64::new(0),
        }
    }
}
