//! Opens the store of the contents of files.

use std::path::PathBuf;
use std::sync::Arc;

use postrider_store::blobs::{BlobStore, FileBlobs, MemoryBlobs};
use postrider_store::directory::MEDIA;

use postrider_workspace::MediaFiles;

use super::{Durability, EngineOptions, StartError};

/// Opens the files. With a store of the caller's there are none: a later engine may have that
/// store, but not the files beside it.
pub(super) async fn open(options: &EngineOptions) -> Result<MediaFiles, StartError> {
    let blobs = match &options.durability {
        Durability::Disk(dir) => Some(open_dir(dir.join(MEDIA)).await?),
        Durability::Memory => Some(BlobStore::new(Arc::new(MemoryBlobs::default()))),
        Durability::Replica(replica) => replica.files.clone().map(BlobStore::new),
        Durability::Custom(_) => None,
    };
    Ok(MediaFiles::new(blobs, options.media))
}

async fn open_dir(dir: PathBuf) -> Result<BlobStore, StartError> {
    let opening = tokio::task::spawn_blocking(move || FileBlobs::open(&dir));
    match opening.await {
        Ok(Ok(files)) => Ok(BlobStore::new(Arc::new(files))),
        Ok(Err(error)) => Err(StartError::Media(error.to_string())),
        Err(error) => Err(StartError::Media(error.to_string())),
    }
}
