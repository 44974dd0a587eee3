//! The condition of a node: its engines together, and its data directory.

use postrider_actors::{DirectorySpace, SystemFigures};

use super::door::Shards;
use super::state::State;
use crate::http::elsewhere::ServerFigures;

/// Collects the figures of a node.
pub(super) async fn figures(shards: &Shards) -> ServerFigures {
    let mut all = Vec::new();
    for (_, engine) in shards.engines.engines() {
        all.push(engine.operations().system().await);
    }
    let directory = shards.engines.directory.clone();
    let measuring = move || DirectorySpace(directory.path().to_owned()).used_bytes();
    let data_bytes = tokio::task::spawn_blocking(measuring).await.ok();
    let together = all.into_iter().reduce(both).unwrap_or_default();
    ServerFigures {
        node: Some(shards.node.name().to_string()),
        is_ready: State(shards).standing_in_the_way().is_empty(),
        figures: SystemFigures { data_bytes, ..together },
    }
}

/// Combines the figures of two engines: sums, or the worse value where they cannot be added.
fn both(one: SystemFigures, other: SystemFigures) -> SystemFigures {
    let free = one.disk_free_bytes.into_iter().chain(other.disk_free_bytes).min();
    SystemFigures {
        started_at: one.started_at.min(other.started_at),
        storage_works: one.storage_works && other.storage_works,
        commit_p99: one.commit_p99.max(other.commit_p99),
        disk_free_bytes: free,
        data_bytes: None,
        snapshot: one.snapshot.max(other.snapshot),
        workspaces_live: one.workspaces_live + other.workspaces_live,
        workspaces_parked: one.workspaces_parked + other.workspaces_parked,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postrider_actors::domain::Timestamp;

    use super::*;

    #[test]
    fn of_two_engines_the_worse_counts() {
        let one = SystemFigures {
            started_at: Timestamp::from_millis(7),
            storage_works: true,
            commit_p99: Some(Duration::from_millis(3)),
            disk_free_bytes: Some(10),
            workspaces_live: 2,
            ..SystemFigures::default()
        };
        let other = SystemFigures {
            started_at: Timestamp::from_millis(5),
            disk_free_bytes: None,
            workspaces_live: 1,
            workspaces_parked: 1,
            ..SystemFigures::default()
        };
        let expected = SystemFigures {
            started_at: Timestamp::from_millis(5),
            storage_works: false,
            commit_p99: Some(Duration::from_millis(3)),
            disk_free_bytes: Some(10),
            workspaces_live: 3,
            workspaces_parked: 1,
            ..SystemFigures::default()
        };
        assert_eq!(both(one, other), expected);
    }
}
