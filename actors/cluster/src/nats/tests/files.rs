//! Tests that late requests harm no acknowledged contents of files, and that their bytes are
//! bounded.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use tempfile::TempDir;

use super::*;
use crate::archive_store::{CheckpointStore, CheckpointsIn};
use crate::cluster_record::{Access, ClusterRecord, JoinError, init};
use crate::coordination::{Coordination as _, encode};
use crate::files::open_files;
use crate::nats::{FilesOf, FilesSpec, NatsFiles, OwnedFiles};

const OWNER: FilesOf = FilesOf { shard: 1, epoch: 7 };

fn access(servers: &[&Server], replicas: usize) -> (Access, ClusterRecord) {
    let requirements = Requirements {
        monitor: Vec::new(),
        assume_synced: true,
        allow_unreplicated: replicas == 1,
    };
    let access = Access {
        cluster: cluster(),
        nats: Server::options(servers),
        requirements,
        keys: vec!["key".to_owned()],
        key_version: 1,
        files_bytes_max: 16 << 20,
        checkpoints: CheckpointStore::Nats,
    };
    let record = ClusterRecord {
        id: "00112233445566778899aabbccddeeff".to_owned(),
        shards: 4,
        replicas,
        stream_bytes_max: 16 << 20,
        key: "key".to_owned(),
        checkpoints: CheckpointsIn::Nats,
    };
    (access, record)
}

/// A content on the disk, and its hash.
struct Content {
    dir: TempDir,
    hash: String,
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("content"), bytes).unwrap();
        let digest = Digest::of_file(&dir.path().join("content")).unwrap();
        let hash = digest.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { dir, hash }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("content")
    }

    /// Returns the digest of the content that is read; `None` if it does not exist.
    fn read(&self, files: &NatsFiles) -> Result<Option<Digest>, CheckpointsError> {
        let found = files.find(OWNER, &self.hash)?;
        found.map(|(name, _)| files.get(&name, &self.dir.path().join("read"))).transpose()
    }

    fn digest(&self) -> Digest {
        Digest::of_file(&self.file()).unwrap()
    }
}

fn stream_of_files(nats: &Nats) -> async_nats::jetstream::stream::Info {
    let name = "OBJ_PR_test_files";
    nats.stream_info(&nats.open_stream(name).unwrap(), name).unwrap()
}

/// Requests that a silent server carries out late, after other requests were acknowledged.
///
/// A test cannot control when a paused server carries them out.
struct Late<'a>(&'a Nats);

impl Late<'_> {
    fn chunk(&self, name: &str) {
        let (context, subject) = (self.0.context(), format!("$O.PR_test_files.C.{name}"));
        let published = self.0.wait(async move {
            context.publish(subject, Bytes::from_static(b"late")).await.unwrap().await
        });
        published.unwrap().unwrap();
    }

    fn removal(&self, name: &str) {
        let about = format!("$O.PR_test_files.M.{}", URL_SAFE.encode(name));
        for subject in [about, format!("$O.PR_test_files.C.{name}")] {
            let stream = self.0.open_stream("OBJ_PR_test_files").unwrap();
            let purged = self.0.wait(async move { stream.purge().filter(subject).await });
            assert_eq!(purged.unwrap().unwrap().purged, 1);
        }
    }
}

#[test]
fn what_is_carried_out_late_harms_no_content() {
    let server = Server::alone(false, "");
    let (access, record) = access(&[&server], 1);
    init(&access, &record, &Pages).unwrap();
    let files = Arc::new(open_files(&access).unwrap());
    let nats = Server::connect(&[&server]);
    let content = Content::of(&[7; 1_000]);
    let (hash, file) = (&*content.hash, content.file());

    // An upload is given up, and another one of the same content is acknowledged.
    let first = files.put(OWNER, hash, 1, &file).unwrap();
    files.remove(OWNER, hash, &|| true).unwrap();
    let second = files.put(OWNER, hash, 2, &file).unwrap();
    Late(&nats).chunk(&first);
    assert_eq!(files.list_chunks(OWNER, hash), Ok(2));
    assert_eq!(content.read(&files), Ok(Some(content.digest())), "a late chunk has destroyed it");
    assert_eq!(files.find(OWNER, hash), Ok(Some((second, 1_000))));
    files.remove(OWNER, hash, &|| true).unwrap();

    // The outcome of a removal is not known, and the same content is uploaded again.
    let owned = OwnedFiles::new(files.clone(), OWNER);
    owned.put(hash, 3, &file).unwrap();
    let (name, _) = owned.find(hash).unwrap().unwrap();
    assert_eq!(owned.kept(hash), Ok(Some(1_000)));
    assert!(owned.remove(hash, &|| false).is_err());
    assert_eq!(owned.kept(hash), Ok(None), "it relies on what may be removed");
    owned.put(hash, 4, &file).unwrap();
    Late(&nats).removal(&name);
    assert_eq!(content.read(&files), Ok(Some(content.digest())), "a late removal has destroyed it");
    assert_eq!(owned.kept(hash), Ok(Some(1_000)));
    owned.remove(hash, &|| true).unwrap();
    assert_eq!((owned.find(hash), stream_of_files(&nats).state.messages), (Ok(None), 0));
}

#[test]
fn an_owner_stores_once_and_stores_anew_what_is_damaged() {
    let server = Server::alone(false, "");
    let (access, record) = access(&[&server], 1);
    init(&access, &record, &Pages).unwrap();
    let files = Arc::new(open_files(&access).unwrap());
    let nats = Server::connect(&[&server]);
    let content = Content::of(&[9; 1_300_000]);
    let (hash, file) = (&*content.hash, content.file());
    let owned = OwnedFiles::new(files.clone(), OWNER);
    assert_eq!((owned.kept(hash), owned.find(hash)), (Ok(None), Ok(None)));
    owned.put(hash, 1, &file).unwrap();
    owned.put(hash, 2, &file).unwrap();
    assert_eq!(files.list_chunks(OWNER, hash), Ok(3));
    assert_eq!(owned.list(u8::from_str_radix(&hash[..2], 16).unwrap()).unwrap().len(), 1);
    // The next owner relies on no content that another may be removing, but still reads it.
    let next = OwnedFiles::new(files.clone(), FilesOf { epoch: 8, ..OWNER });
    assert_eq!(next.kept(hash), Ok(None));
    assert!(next.find(hash).unwrap().is_some());
    // A chunk is lost.
    let stream = nats.open_stream("OBJ_PR_test_files").unwrap();
    let first = stream_of_files(&nats).state.first_sequence;
    nats.wait(async move { stream.delete_message(first).await }).unwrap().unwrap();
    assert!(matches!(owned.find(hash), Err(CheckpointsError::Damaged { .. })));
    owned.put(hash, 3, &file).unwrap();
    assert_eq!(content.read(&files), Ok(Some(content.digest())));
    // The content that the next owner has stored is not removed by this one.
    next.put(hash, 4, &file).unwrap();
    assert!(owned.remove(hash, &|| true).is_err());
    assert_eq!(content.read(&files), Ok(Some(content.digest())));
    next.remove(hash, &|| true).unwrap();
    assert_eq!(stream_of_files(&nats).state.messages, 0);
}

#[test]
fn full_files_leave_the_logs_their_room() {
    let server = Server::alone(false, "");
    let (access, record) = access(&[&server], 1);
    init(&access, &record, &Pages).unwrap();
    let files = open_files(&access).unwrap();
    let nats = Server::connect(&[&server]);
    assert_eq!(stream_of_files(&nats).config.max_bytes, 16 << 20);
    let mut stored = Vec::new();
    let refused = (0..20_u8).find_map(|at| {
        let content = Content::of(&[at; 1_500_000]);
        let put = files.put(OWNER, &content.hash, at.into(), &content.file());
        stored.push(content);
        put.err()
    });
    assert!(refused.is_some(), "there is no bound");
    let last = stored.pop().unwrap();
    assert_eq!(files.list_chunks(OWNER, &last.hash), Ok(0), "the refused one takes room");
    let log = NatsStream::open(&nats, &record.stream(&cluster(), 0)).unwrap();
    let options = ReplicatedOptions { entry_bytes_max: 2_000, stall_ms: 3_000 };
    let log = ReplicatedLog::open(log.id(), 0, Arc::new(log), Arc::new(BootClock), options);
    claimed(&log.unwrap());
    // Other removals make room, although everything is full.
    files.remove(OWNER, &stored[0].hash, &|| true).unwrap();
    files.put(OWNER, &last.hash, 99, &last.file()).unwrap();
    assert_eq!(last.read(&files), Ok(Some(last.digest())));
}

#[test]
fn the_stream_of_files_is_made_once_and_only_as_it_must_be() {
    let server = Server::alone(false, "");
    let (access, record) = access(&[&server], 1);
    let nats = Server::connect(&[&server]);
    let is_there = || match NatsFiles::found(&nats, &cluster()) {
        Err(NatsError::Missing(_)) => false,
        found => found.map(|_| true).unwrap(),
    };
    let opened = |access: &Access| open_files(access).map(drop);
    // A node that may not join makes nothing.
    assert!(matches!(opened(&access), Err(JoinError::Missing(_))) && !is_there());
    init(&access, &record, &Pages).unwrap();
    let delete = || {
        let context = nats.context();
        nats.wait(async move { context.delete_stream("OBJ_PR_test_files").await })
            .unwrap()
            .unwrap();
    };
    opened(&access).unwrap();
    let other = Access { keys: vec!["other".to_owned()], ..access.clone() };
    assert!(matches!(opened(&other), Err(JoinError::Key)));
    // An existing stream that is missing later is not made again as if it had been empty.
    delete();
    let error = opened(&access).unwrap_err().to_string();
    assert!(error.starts_with("CLUSTER_MISSING: ") && error.contains("cluster init"), "{error}");
    assert!(!is_there());
    init(&access, &record, &Pages).unwrap();
    opened(&access).unwrap();
    // The room can be enlarged, but not reduced.
    let more = Access { files_bytes_max: 20 << 20, ..access.clone() };
    opened(&more).unwrap();
    assert_eq!(stream_of_files(&nats).config.max_bytes, 16 << 20);
    init(&more, &record, &Pages).unwrap();
    assert_eq!(stream_of_files(&nats).config.max_bytes, 20 << 20);
    assert!(matches!(init(&access, &record, &Pages), Err(JoinError::Mismatch(_))));
    opened(&access).unwrap();
    // A stream without a bound gets one.
    delete();
    NatsFiles::create(&nats, &cluster(), FilesSpec { replicas: 1, bytes_max: -1 }).unwrap();
    assert!(matches!(opened(&access), Err(JoinError::Mismatch(_))));
    init(&access, &record, &Pages).unwrap();
    opened(&access).unwrap();
}

#[test]
fn a_cluster_of_an_earlier_version_gets_its_stream_of_files() {
    let server = Server::alone(false, "");
    let (access, record) = access(&[&server], 1);
    let nats = Server::connect(&[&server]);
    NatsBucket::create(&nats, &cluster(), 1).unwrap();
    let bucket = NatsBucket::open(&nats, &cluster()).unwrap();
    bucket.write("meta", encode("meta", &record).unwrap(), 0, None).unwrap();
    // A node with another master key makes nothing.
    let other = Access { keys: vec!["other".to_owned()], ..access.clone() };
    assert!(matches!(open_files(&other), Err(JoinError::Key)));
    assert!(matches!(NatsFiles::found(&nats, &cluster()), Err(NatsError::Missing(_))));
    // A NATS that has no room for the stream reports it, and nothing is noted.
    let large = Access { files_bytes_max: 1 << 60, ..access.clone() };
    let error = open_files(&large).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, JoinError::FilesNotMade { bytes, .. } if bytes == 1 << 60), "{text}");
    assert!(text.starts_with("FILES_NOT_MADE: ") && text.contains("files_bytes_max"), "{text}");
    assert!(bucket.read("files").unwrap().is_none());
    drop(open_files(&access).unwrap());
    // The record decides how many servers store the stream, whatever this node would allow.
    let kept_by_three = ClusterRecord { replicas: 3, ..record };
    let revision = bucket.read("meta").unwrap().unwrap().revision;
    bucket.write("meta", encode("meta", &kept_by_three).unwrap(), revision, None).unwrap();
    let error = open_files(&access).unwrap_err().to_string();
    assert!(
        error.starts_with("CLUSTER_MISMATCH: ") && error.contains("1 replicas, not 3"),
        "{error}"
    );
}
