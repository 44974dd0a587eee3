//! The identity of a node: 16 random bytes in its data directory, and the cluster it belongs to.

use std::path::Path;

use postrider_actors::random;
use postrider_cluster::Identity;

use super::error::ClusterError;
use crate::boot::{BootError, DataDir};

/// The file of the directory's identity.
const NODE: &str = "node";
/// The file of the cluster's identity.
const CLUSTER: &str = "cluster";
/// The files that only the data directory of a single node has.
const SINGLE: [&str; 5] = ["format", "store", "log", "view", "snapshots"];

/// Fails if the directory has the data of a single node.
pub(super) fn check_empty(path: &Path) -> Result<(), ClusterError> {
    if SINGLE.iter().any(|name| path.join(name).exists()) {
        return Err(ClusterError::NotEmpty(path.to_owned()));
    }
    Ok(())
}

/// Reads the identity of this process, and the cluster that its directory belongs to.
pub(super) fn read(directory: &DataDir) -> Result<(Identity, Option<String>), BootError> {
    let line = match directory.read(NODE)? {
        Some(line) => line,
        None => {
            let line = hex(&random::bytes::<16>());
            directory.write(NODE, &line)?;
            line
        }
    };
    let byte = |at: usize| u8::from_str_radix(line.get(at * 2..at * 2 + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..16).map(byte).collect();
    let bytes: Option<[u8; 16]> =
        bytes.filter(|_| line.len() == 32).and_then(|it| it.try_into().ok());
    let expected = "one line of 32 hexadecimal digits; remove the file to get a new identity";
    let content = || BootError::Content { path: directory.file(NODE), expected };
    let identity = Identity { directory: bytes.ok_or_else(content)?, incarnation: random::bytes() };
    Ok((identity, directory.read(CLUSTER)?))
}

/// Records the cluster that the directory belongs to from now on.
pub(super) fn belongs_to(directory: &DataDir, id: &str) -> Result<(), BootError> {
    if directory.read(CLUSTER)?.as_deref() == Some(id) {
        return Ok(());
    }
    directory.write(CLUSTER, id)
}

/// Formats bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_a_process_is_new_each_time() {
        let parent = tempfile::tempdir().unwrap();
        let directory = DataDir::open(parent.path(), false).unwrap();
        let (first, cluster) = read(&directory).unwrap();
        assert_eq!(cluster, None);
        belongs_to(&directory, "c1").unwrap();
        let (second, cluster) = read(&directory).unwrap();
        assert_eq!((second.directory, cluster.as_deref()), (first.directory, Some("c1")));
        assert_ne!(second.incarnation, first.incarnation);
        directory.write(NODE, "half").unwrap();
        let error = read(&directory).unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits"), "{error}");
    }

    #[test]
    fn the_directory_of_a_single_node_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        assert!(check_empty(parent.path()).is_ok());
        std::fs::create_dir(parent.path().join("log")).unwrap();
        let error = check_empty(parent.path()).unwrap_err();
        assert_eq!(error.code(), "NOT_EMPTY");
    }
}
