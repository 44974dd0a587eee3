//! Tests that a missing stream of a used cluster is never made again as if it had been empty.

use super::*;
use crate::archive_store::{CheckpointStore, CheckpointsIn};
use crate::cluster_record::{Access, ClusterRecord, JoinError, init, open, open_without};
use crate::coordination::{ASSIGNMENT, Coordination};

fn access(server: &Server) -> (Access, ClusterRecord) {
    let requirements =
        Requirements { monitor: Vec::new(), assume_synced: true, allow_unreplicated: true };
    let nats = Server::options(&[server]);
    let keys = vec!["key".to_owned()];
    let record = ClusterRecord {
        id: "00112233445566778899aabbccddeeff".to_owned(),
        shards: 4,
        replicas: 1,
        stream_bytes_max: 64 << 20,
        key: "key".to_owned(),
        checkpoints: CheckpointsIn::Nats,
    };
    let files_bytes_max = 64 << 20;
    let checkpoints = CheckpointStore::Nats;
    let cluster = cluster();
    let access =
        Access { cluster, nats, requirements, keys, key_version: 1, files_bytes_max, checkpoints };
    (access, record)
}

fn delete(nats: &Nats, shard: u16) {
    let context = nats.context();
    let name = format!("PR_test_{shard}");
    nats.wait(async move { context.delete_stream(name).await }).unwrap().unwrap();
}

#[test]
fn only_a_cluster_that_was_never_used_is_made_whole_by_init() {
    let server = Server::alone(false, "");
    let (access, record) = access(&server);
    assert!(init(&access, &record, &Pages).unwrap().1);
    let nats = Server::connect(&[&server]);
    let bucket = NatsBucket::open(&nats, &cluster()).unwrap();
    let refused_without = |shard: u16| {
        delete(&nats, shard);
        let error = init(&access, &record, &Pages).unwrap_err();
        assert!(matches!(error, JoinError::StreamMissing(of) if of == shard), "{error}");
        let error = open(&access, &Pages).unwrap_err().to_string();
        assert!(error.starts_with("CLUSTER_MISSING: "), "{error}");
        assert!(error.contains(&format!("cluster repair --shard {shard}")), "{error}");
    };
    // An init that did not finish is run again.
    delete(&nats, 3);
    assert!(!init(&access, &record, &Pages).unwrap().1);
    open(&access, &Pages).unwrap();
    // An import has stored a checkpoint, and no node has run.
    bucket.write("checkpoints.2", "[]".into(), 0, None).unwrap();
    refused_without(2);
    bucket.write(ASSIGNMENT, "[]".into(), 0, None).unwrap();
    refused_without(1);
    // One of two missing streams is made at a time.
    for shard in [2, 1] {
        let (_, stream) = open_without(&access, &Pages, shard).unwrap();
        stream.unwrap_err().make().unwrap();
        let (_, stream) = open_without(&access, &Pages, shard).unwrap();
        assert_eq!(Some(stream.unwrap().id()), record.log_id(shard));
    }
    open(&access, &Pages).unwrap();
}
