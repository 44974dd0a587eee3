//! Archives in an object store of NATS JetStream: chunks, with their SHA-256.
//!
//! The store has its own connection, so that no append waits behind the chunks of an archive.

mod fetching;
mod files;
mod owned;

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::object_store::{
    GetErrorKind, Object, ObjectInfo, ObjectOptions, ObjectStore,
};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType, Stream as JetStream};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt;

use super::{Nats, NatsError};
use crate::checkpoints::{Archives, CheckpointsError, Digest, GivesUp, goes};
use crate::name::NodeName;
use fetching::{Objects, Part, fetch};
pub(crate) use files::FilesSpec;
pub use files::{FilesOf, NatsFiles};
pub use owned::OwnedFiles;

/// The number of bytes of a chunk: half of the largest message that a server accepts.
const CHUNK_BYTES: usize = 512 * 1024;
/// The maximum time of reading a chunk.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// The maximum time of storing a chunk.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The time between two checks whether to continue.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The archives of a cluster.
pub struct NatsArchives {
    nats: Arc<Nats>,
    bucket: String,
    store: ObjectStore,
    stream: JetStream<()>,
}

impl std::fmt::Debug for NatsArchives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsArchives").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

fn bucket(cluster: &NodeName) -> String {
    format!("PR_{cluster}_checkpoints")
}

/// Returns the configuration of the stream of an object store.
fn config(bucket: &str, replicas: usize) -> Config {
    Config {
        name: format!("OBJ_{bucket}"),
        subjects: vec![format!("$O.{bucket}.C.>"), format!("$O.{bucket}.M.>")],
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        num_replicas: replicas,
        allow_rollup: true,
        // A stored archive is read back from the server that leads.
        allow_direct: false,
        ..Config::default()
    }
}

impl NatsArchives {
    /// Makes the object store, unless it exists.
    ///
    /// # Errors
    /// The errors of making a stream.
    pub fn create(nats: &Nats, cluster: &NodeName, replicas: usize) -> Result<(), NatsError> {
        nats.create_stream(config(&bucket(cluster), replicas))
    }

    /// Opens the object store.
    ///
    /// # Errors
    /// [`NatsError`]: the store does not exist, or does not answer.
    pub fn open(nats: Arc<Nats>, cluster: &NodeName) -> Result<Self, NatsError> {
        Self::open_bucket(nats, bucket(cluster))
    }

    fn open_bucket(nats: Arc<Nats>, bucket: String) -> Result<Self, NatsError> {
        let stream = nats.open_stream(&format!("OBJ_{bucket}"))?;
        nats.stream_info(&stream, &format!("OBJ_{bucket}"))?;
        let (mut context, name) = (nats.context(), bucket.clone());
        context.set_timeout(ANSWER_WITHIN);
        let opened = nats.wait(async move { context.get_object_store(name).await });
        let silent = || NatsError::Unreachable("no answer in time".to_owned());
        let store = opened.ok_or_else(silent)?;
        let store = store.map_err(|error| NatsError::Unreachable(error.to_string()))?;
        Ok(Self { nats, bucket, store, stream })
    }

    /// Removes the archive under a name, and its description.
    fn purge(&self, name: &str) -> Result<(), CheckpointsError> {
        let (stream, bucket) = (self.stream.clone(), self.bucket.clone());
        let about = about_subject(&bucket, name);
        let chunks = format!("$O.{bucket}.C.{name}");
        self.run(&|| false, async move {
            stream.purge().filter(about).await.map_err(failed)?;
            stream.purge().filter(chunks).await.map(drop).map_err(failed)
        })
    }

    /// Stores the bytes of a file under an unused name.
    fn store(
        &self,
        name: &str,
        file: &Path,
        gives_up: GivesUp<'_>,
    ) -> Result<(), CheckpointsError> {
        let mut file = std::fs::File::open(file).map_err(failed)?;
        let mut context = self.nats.context();
        context.set_timeout(ANSWER_WITHIN);
        let (mut hasher, mut size, mut chunks) = (Sha256::new(), 0, 0);
        let subject = format!("$O.{}.C.{name}", self.bucket);
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk);
            if read.map_err(failed)? == 0 {
                break;
            }
            hasher.update(&chunk);
            (size, chunks) = (size + chunk.len(), chunks + 1);
            // Each chunk is a separate call, so that giving up is checked between any two.
            let headers = HeaderMap::new();
            self.run(gives_up, publish(context.clone(), subject.clone(), headers, chunk))?;
        }
        let about = about(&self.bucket, name, size, chunks, &hasher.finalize());
        let about = serde_json::to_vec(&about).map_err(failed)?;
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Rollup", "sub");
        self.run(gives_up, publish(context, about_subject(&self.bucket, name), headers, about))
    }

    /// Reads the archive under a name, into a file if one is given.
    ///
    /// `synced` requests a sync of the file.
    fn read(
        &self,
        name: &str,
        to: Option<&Path>,
        synced: bool,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError> {
        let (name, to) = (name.to_owned(), to.map(Path::to_owned));
        let kept = Kept {
            store: self.store.clone(),
            context: self.nats.context(),
            bucket: self.bucket.clone(),
        };
        self.run(gives_up, async move { fetch(&kept, &name, to.as_deref(), synced).await })
    }

    /// Runs a call to its end, unless the caller gives up before it or while it runs.
    fn run<T: Send + 'static>(
        &self,
        gives_up: GivesUp<'_>,
        call: impl Future<Output = Result<T, CheckpointsError>> + Send + 'static,
    ) -> Result<T, CheckpointsError> {
        let given_up = || Err(failed("the engine stops"));
        if gives_up() {
            return given_up();
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let task = self.nats.handle.spawn(async move {
            // The caller may wait no more.
            drop(sender.send(call.await));
        });
        loop {
            match receiver.recv_timeout(LOOK_EVERY) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) if gives_up() => {
                    task.abort();
                    return given_up();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(failed("the connection to NATS has ended"));
                }
            }
        }
    }
}

fn failed(error: impl std::fmt::Display) -> CheckpointsError {
    CheckpointsError::Failed(error.to_string())
}

/// The objects in NATS.
struct Kept {
    store: ObjectStore,
    context: Context,
    bucket: String,
}

impl Objects for Kept {
    type Object = (Object, u64);

    async fn open(&self, name: &str) -> Result<Option<Self::Object>, CheckpointsError> {
        match self.store.get(name).await {
            Ok(object) => {
                let chunks = object.info.chunks as u64;
                Ok(Some((object, chunks)))
            }
            Err(error) if error.kind() == GetErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn read(
        &self,
        (object, _): &mut Self::Object,
        chunk: &mut [u8],
    ) -> Result<Part, CheckpointsError> {
        match tokio::time::timeout(READ_WITHIN, object.read(chunk)).await {
            Err(_) => Ok(Part::Slow),
            Ok(Ok(0)) => Ok(Part::End),
            Ok(Ok(read)) => Ok(Part::Bytes(read)),
            // The digest of the store does not match.
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                Ok(Part::Damaged(error.to_string()))
            }
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::TimedOut => Ok(Part::Slow),
            Ok(Err(error)) => Err(failed(error)),
        }
    }

    async fn has_all(
        &self,
        name: &str,
        (_, chunks): &mut Self::Object,
    ) -> Result<bool, CheckpointsError> {
        let subject = format!("$O.{}.C.{name}", self.bucket);
        let found = subjects(&self.context, &self.bucket, &subject).await?;
        Ok(found.get(&subject).is_some_and(|there| *there >= *chunks))
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Returns the subjects of the store that match a filter, with their numbers of messages.
async fn subjects(
    context: &Context,
    bucket: &str,
    filter: &str,
) -> Result<HashMap<String, u64>, CheckpointsError> {
    let asked = json!({ "subjects_filter": filter });
    let about = format!("STREAM.INFO.OBJ_{bucket}");
    let found: Value = match context.request(about, &asked).await.map_err(failed)? {
        Response::Ok(found) => found,
        Response::Err { error } => return Err(failed(error)),
    };
    let found = found["state"]["subjects"].as_object().into_iter().flatten();
    Ok(found.map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0))).collect())
}

/// Returns the description that the store has of an object beside its chunks.
///
/// The chunks are under the object's own name, so that the remains of an interrupted upload are
/// found again.
fn about(bucket: &str, name: &str, size: usize, chunks: usize, sha256: &[u8]) -> ObjectInfo {
    ObjectInfo {
        description: None,
        options: Some(ObjectOptions { link: None, max_chunk_size: Some(CHUNK_BYTES) }),
        nuid: name.to_owned(),
        chunks,
        size,
        digest: Some(format!("SHA-256={}", URL_SAFE.encode(sha256))),
        modified: None,
        deleted: false,
        metadata: HashMap::new(),
        headers: None,
        bucket: bucket.to_owned(),
        name: name.to_owned(),
    }
}

async fn publish(
    context: Context,
    subject: String,
    headers: HeaderMap,
    payload: Vec<u8>,
) -> Result<(), CheckpointsError> {
    let sent = context.publish_with_headers(subject, headers, payload.into()).await;
    sent.map_err(failed)?.await.map(drop).map_err(failed)
}

fn about_subject(bucket: &str, name: &str) -> String {
    format!("$O.{bucket}.M.{}", URL_SAFE.encode(name))
}

impl Archives for NatsArchives {
    fn put(&self, name: &str, file: &Path, gives_up: GivesUp<'_>) -> Result<(), CheckpointsError> {
        // Any remains under the name are of a process that did not finish it.
        self.purge(name)?;
        self.store(name, file, gives_up)
    }

    fn get(
        &self,
        name: &str,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError> {
        self.read(name, to, true, gives_up)
    }

    fn keep_only(&self, shard: u16, names: &[String], epoch: u64) -> Result<(), CheckpointsError> {
        let prefix = format!("$O.{}.C.", self.bucket);
        let (context, bucket) = (self.nats.context(), self.bucket.clone());
        let filter = format!("{prefix}{shard}.>");
        let found =
            self.run(&|| false, async move { subjects(&context, &bucket, &filter).await })?;
        let found = found.keys().filter_map(|subject| subject.strip_prefix(&prefix));
        for name in found.filter(|name| goes(name, names, epoch)) {
            self.purge(name)?;
        }
        Ok(())
    }
}
