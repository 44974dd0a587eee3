//! Logs are trimmed, and the trimmed entries are in checkpoints.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::jetstream::jetstream;
use super::nodes::{Cluster, admin, read, send, verify, workspace};
use super::state::once;
use crate::faults::{Client, Outcome};
use crate::support::eventually;

/// The minimum size of a log.
pub(super) const STREAM_BYTES: u64 = 16 << 20;
/// The bytes of one contact's field, and the number of contacts of one call.
const FIELD_BYTES: usize = 15_000;
const CONTACTS: usize = 50;

pub(super) const SETTINGS: [(&str, &str); 5] = [
    ("CLUSTER__STREAM_BYTES_MAX", "16777216"),
    ("STORAGE__CHECKPOINT_LOG_BYTES", "1048576"),
    ("STORAGE__SNAPSHOT_JOURNAL_BYTES", "1048576"),
    ("STORAGE__FREE_BYTES_MIN", "0"),
    ("LIMITS__CONTACTS_PER_MINUTE", "0"),
];

/// Changes the same contacts over and over, until this many bytes of the log were written.
pub(super) async fn write(client: &mut Client, bytes: u64, round: &mut usize) {
    let mut written = 0;
    while written < bytes {
        *round += 1;
        let field = format!("{round} {}", "y".repeat(FIELD_BYTES));
        let contact = |number: usize| {
            let phone = format!("+1555020{number:04}");
            json!({"name": format!("n{number}"), "phone": phone, "custom_fields": {"x": field}})
        };
        let contacts: Vec<_> = (0..CONTACTS).map(contact).collect();
        let body = json!({"on_conflict": "update", "contacts": contacts});
        let taken = async || match client.post("/v1/contacts/batch", &body).await {
            Outcome::Answered(answer) if answer.status == 200 && all_done(&answer.body) => Some(()),
            // A log fills faster than a checkpoint is made, which then makes room.
            Outcome::Answered(answer) if [200, 503].contains(&answer.status) => None,
            other => panic!("after {written} bytes: {other:?}"),
        };
        eventually("room in the log", taken).await;
        written += (CONTACTS * FIELD_BYTES) as u64;
    }
}

/// Returns whether each contact of a batch, with its own status, was created or changed.
fn all_done(answer: &Value) -> bool {
    let rows = answer["data"].as_array().unwrap();
    rows.len() == CONTACTS && rows.iter().all(|row| row["status"].as_u64() < Some(300))
}

fn checkpoint(state: &Value) -> Option<(u64, u64)> {
    let shards = state["shards"].as_array().unwrap().iter();
    let of =
        |shard: &Value| Some((shard["shard"].as_u64()?, shard["checkpoint_position"].as_u64()?));
    shards.filter_map(of).max_by_key(|(_, position)| *position)
}

/// The place of the checkpoints.
enum Store {
    Nats,
    Directory(PathBuf),
}

impl Store {
    /// Returns the names of the checkpoints of a shard.
    fn of(&self, cluster: &Cluster, shard: u64) -> Vec<String> {
        let own = format!("{shard}.");
        match self {
            Self::Nats => {
                let filter = json!({"subjects_filter": format!("$O.PR_test_checkpoints.C.{own}>")});
                let name = "STREAM.INFO.OBJ_PR_test_checkpoints";
                let about = jetstream(&cluster.nats.address, name, &filter);
                about["state"]["subjects"].as_object().unwrap().keys().cloned().collect()
            }
            Self::Directory(dir) => {
                let names = dir.read_dir().unwrap().map(|it| it.unwrap().file_name());
                let names = names.map(|name| name.into_string().unwrap());
                names.filter(|name| name.starts_with(&own)).collect()
            }
        }
    }

    fn lose(&self, cluster: &Cluster, name: &str) {
        match self {
            Self::Nats => {
                let what = json!({"filter": name});
                let purge = "STREAM.PURGE.OBJ_PR_test_checkpoints";
                jetstream(&cluster.nats.address, purge, &what);
            }
            Self::Directory(dir) => std::fs::remove_file(dir.join(name)).unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_written_twice_over_goes_on_and_nothing_is_lost() {
    goes_on(&Cluster::with(&SETTINGS), &Store::Nats).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoints_may_be_in_a_directory_that_all_nodes_share() {
    let shared = tempfile::tempdir().unwrap();
    let url = format!("file://{}", shared.path().display());
    let in_directory = ("CLUSTER__CHECKPOINTS", url.as_str());
    let cluster = Cluster::with(&[&SETTINGS[..], &[in_directory]].concat());
    let dir = shared.path().join("postrider-test");
    goes_on(&cluster, &Store::Directory(dir.clone())).await;
    // A node that looks elsewhere, or finds nothing there, does not start.
    let start = |value: &str| {
        let own = [("CLUSTER__CHECKPOINTS", value)];
        cluster.start_with("pr-3", &cluster.directory("pr-3"), &own).err().unwrap()
    };
    let log = start("nats");
    assert!(log.contains("CLUSTER_MISMATCH") && log.contains("cluster.checkpoints"), "{log}");
    for store in ["s3://bucket/prefix", "file://relative"] {
        let log = start(store);
        assert!(log.contains("cluster.checkpoints") && log.contains("such as s3://"), "{log}");
    }
    std::fs::rename(&dir, shared.path().join("away")).unwrap();
    let log = start(&url);
    assert!(log.contains("CLUSTER_MISSING") && log.contains("mounted"), "{log}");
}

async fn goes_on(cluster: &Cluster, store: &Store) {
    let first = cluster.start("pr-1");
    once(&first, "all shards", |state| state["ready"] == true).await;
    let (mut client, key) = workspace(&first, "acme").await;
    let open = send(&mut client, "+15550100001").await;
    let used = send(&mut client, "+15550100002").await;
    assert_eq!(verify(&mut client, &used.0, &used.1).await.0, 200);
    let mut round = 0;
    write(&mut client, 2 * STREAM_BYTES, &mut round).await;
    let state = once(&first, "a checkpoint", |state| checkpoint(state).is_some()).await;
    let (shard, position) = checkpoint(&state).unwrap();
    let stream = format!("STREAM.INFO.PR_test_{shard}");
    let about = jetstream(&cluster.nats.address, &stream, &json!({}));
    let begins = about["state"]["first_seq"].as_u64().unwrap();
    assert!(1 < begins && begins <= position, "{begins}, {position}: {about}");
    assert!(about["state"]["bytes"].as_u64().unwrap() <= STREAM_BYTES, "{about}");

    // Another node knows it, and had nothing of it on its disk.
    first.kill();
    let second = cluster.start("pr-2");
    once(&second, "all shards", |state| state["ready"] == true).await;
    let mut client = Client::new(second.address(), &key);
    let (status, body) = verify(&mut client, &used.0, &used.1).await;
    assert_ne!(status, 200, "a code was accepted twice: {body}");
    assert_eq!(verify(&mut client, &open.0, &open.1).await.0, 200);
    let last = |listed: &Value| {
        let field = listed["data"][0]["custom_fields"]["x"].as_str().unwrap_or_default();
        (listed["total"].as_u64(), field.split(' ').next().unwrap_or_default().to_owned())
    };
    let listed = read(&mut client, "/v1/contacts?limit=1").await;
    assert_eq!(last(&listed), (Some(CONTACTS as u64), round.to_string()));
    write(&mut client, STREAM_BYTES / 4, &mut round).await;
    let stored = || store.of(cluster, shard);
    // A checkpoint that is being stored is the third.
    eventually("two checkpoints", async || (stored().len() == 2).then_some(())).await;
    second.kill();

    // The newest checkpoint and the disk are lost: the older one and the log have everything.
    std::fs::remove_dir_all(cluster.directory("pr-2").join("replicas")).unwrap();
    let stored = stored();
    assert_eq!(stored.len(), 2, "two are kept: {stored:?}");
    store.lose(cluster, stored.iter().max().unwrap());
    let second = cluster.start("pr-2");
    once(&second, "all shards", |state| state["ready"] == true).await;
    assert!(second.log().contains("passed over"), "the newest was used: {}", second.log());
    let mut client = Client::new(second.address(), &key);
    let listed = read(&mut client, "/v1/contacts?limit=1").await;
    assert_eq!(last(&listed), (Some(CONTACTS as u64), round.to_string()));
    let listed = read(&mut admin(&second), "/admin/v1/workspaces").await;
    assert_eq!(listed["total"], 1);
    assert_ne!(verify(&mut client, &open.0, &open.1).await.0, 200, "a code was accepted twice");
    write(&mut client, STREAM_BYTES / 8, &mut round).await;
}
