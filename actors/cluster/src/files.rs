//! The stream of the contents of files, which is made only once.
//!
//! The bucket notes that the stream was made. So a missing stream is distinguished from one that
//! was never made. An empty stream in place of a missing one would look as if nobody had stored
//! anything.

use std::sync::Arc;

use crate::cluster_record::{Access, ClusterRecord, JoinError, bucket_of};
use crate::coordination::Coordination;
use crate::nats::{FilesSpec, Nats, NatsError, NatsFiles};

/// The key that exists once the stream was made.
const MADE: &str = "files";

/// Opens the contents of files of an existing cluster, over a connection of their own. Blocks.
///
/// The stream is made if the cluster has none because an earlier version made it.
///
/// # Errors
/// [`JoinError`]: the cluster or the stream is missing, or not as it must be.
/// [`JoinError::FilesNotMade`] if NATS has no room for the stream.
pub fn open_files(access: &Access) -> Result<NatsFiles, JoinError> {
    let nats = Nats::connect(&access.nats)?;
    let (bucket, record) = bucket_of(&nats, access)?;
    match NatsFiles::found(&nats, &access.cluster) {
        Err(NatsError::Missing(_)) if bucket.read(MADE)?.is_some() => {
            return Err(JoinError::FilesMissing(access.cluster.clone()));
        }
        Err(NatsError::Missing(_)) => {
            let spec = spec(access, &record);
            let made = NatsFiles::create(&nats, &access.cluster, spec);
            made.map_err(|error| not_made(error, spec))?;
        }
        found => {
            let found = found?;
            check_replicas(access, &record, found)?;
            if found.bytes_max <= 0 {
                let why = "the stream of the contents of files has no bound; `postrider cluster \
                           init` gives it that of cluster.files_bytes_max";
                return Err(JoinError::Mismatch(why.to_owned()));
            }
        }
    }
    note(&*bucket)?;
    Ok(NatsFiles::open(nats, &access.cluster)?)
}

/// Makes the stream, or gives it more room if `access` asks for more.
///
/// A missing stream is made again.
pub(crate) fn make_files(
    nats: &Arc<Nats>,
    access: &Access,
    record: &ClusterRecord,
    bucket: &dyn Coordination,
) -> Result<(), JoinError> {
    let wanted = spec(access, record);
    match NatsFiles::found(nats, &access.cluster) {
        Err(NatsError::Missing(_)) => {
            if bucket.read(MADE)?.is_some() {
                tracing::warn!("the stream of the contents of files was missing, with what it had");
            }
            NatsFiles::create(nats, &access.cluster, wanted)?;
        }
        found => {
            let found = found?;
            check_replicas(access, record, found)?;
            // A smaller bound could remove existing contents.
            if found.bytes_max > wanted.bytes_max {
                let why = format!(
                    "the contents of files have room for {} bytes, so cluster.files_bytes_max \
                     cannot be {}",
                    found.bytes_max, wanted.bytes_max
                );
                return Err(JoinError::Mismatch(why));
            }
            if found != wanted {
                NatsFiles::update(nats, &access.cluster, wanted)?;
            }
        }
    }
    note(bucket)
}

/// Returns the error of a stream that was not made.
///
/// NATS stores the logs of the shards, so it has enough servers.
fn not_made(error: NatsError, FilesSpec { bytes_max: bytes, .. }: FilesSpec) -> JoinError {
    match error {
        NatsError::Unreplicated { what, .. } | NatsError::Stream { what, .. } => {
            JoinError::FilesNotMade { bytes, what }
        }
        error => error.into(),
    }
}

fn spec(access: &Access, record: &ClusterRecord) -> FilesSpec {
    FilesSpec { replicas: record.replicas, bytes_max: access.files_bytes_max }
}

fn check_replicas(
    access: &Access,
    record: &ClusterRecord,
    found: FilesSpec,
) -> Result<(), JoinError> {
    if found.replicas == record.replicas {
        return Ok(());
    }
    let (cluster, there, wanted) = (&access.cluster, found.replicas, record.replicas);
    let why = format!(
        "the stream OBJ_PR_{cluster}_files of the contents of files has {there} replicas, not \
         {wanted}"
    );
    Err(JoinError::Mismatch(why))
}

fn note(bucket: &dyn Coordination) -> Result<(), JoinError> {
    if bucket.read(MADE)?.is_none() {
        // Another process may have written the key meanwhile.
        bucket.write(MADE, "{}".into(), 0, None)?;
    }
    Ok(())
}
