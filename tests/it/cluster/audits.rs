//! The audit log over three nodes: the chains of all shards are read as one, by time.

use serde_json::{Value, json};

use super::people::{admin, rig, shard_of};
use crate::faults::Process;

/// Returns all records of keys through a node, in parts of so many, and the cursor behind them.
async fn all(node: &Process, order: &str, limit: usize) -> (Vec<Value>, Value) {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    let begin = format!("/admin/v1/audit?order={order}&limit={limit}&action=key");
    for _ in 0..200 {
        let part = admin(node).get(&format!("{begin}{cursor}")).await.ok();
        let some = part["data"].as_array().unwrap();
        assert!(some.len() <= limit, "{part}");
        rows.extend(some.clone());
        let next = part["next_cursor"].clone();
        if next.is_null() || some.is_empty() {
            return (rows, next);
        }
        cursor = format!("&cursor={}", next.as_str().unwrap());
    }
    panic!("the parts never end");
}

async fn key(node: &Process, workspace: &str) {
    let path = format!("/admin/v1/workspaces/{workspace}/keys");
    let body = json!({"name": "test", "scopes": ["messaging:send"]});
    admin(node).post(&path, body).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_records_of_all_shards_are_read_by_time_through_any_node() {
    let (_cluster, nodes, ids) = rig().await;
    // The keys are created in turn, so that a shard's records are not all together.
    for node in &nodes {
        for id in ids {
            key(node, id).await;
        }
    }
    let (rows, cursor) = all(&nodes[0], "oldest", 200).await;
    let listed: Vec<_> = rows.iter().map(|row| row["workspace"].as_str().unwrap()).collect();
    assert_eq!(listed, [ids, ids, ids].concat());
    for (row, id) in rows.iter().zip(&listed) {
        assert_eq!(row["shard"], shard_of(id), "{row}");
    }
    for node in &nodes {
        for limit in [1, 4] {
            assert_eq!(all(node, "oldest", limit).await.0, rows, "{limit} at a time");
            let (newest, _) = all(node, "newest", limit).await;
            assert!(newest.iter().rev().eq(&rows), "{limit} at a time, {newest:?}");
        }
    }
    // Later records are behind the cursor.
    key(&nodes[1], ids[1]).await;
    let cursor = cursor.as_str().unwrap();
    let path = format!("/admin/v1/audit?action=key&cursor={cursor}");
    let later = admin(&nodes[2]).get(&path).await.ok();
    assert_eq!(later["data"].as_array().unwrap().len(), 1, "{later}");
    for bad in ["/admin/v1/audit?cursor=AQAAAAAAAAAB", "/admin/v1/audit?cursor=x"] {
        admin(&nodes[0]).get(bad).await.check_field("cursor");
    }
    admin(&nodes[0]).get("/admin/v1/audit?limit=0").await.check_field("limit");
    let (mut checked, mut cursor) = (0, String::new());
    for _ in 0..20 {
        let part = admin(&nodes[0]).get(&format!("/admin/v1/audit/check{cursor}")).await.ok();
        assert!(part["fault"].is_null(), "{part}");
        checked += part["checked"].as_u64().unwrap();
        match part["next_cursor"].as_str() {
            Some(next) => cursor = format!("?cursor={next}"),
            None => break,
        }
    }
    let all = admin(&nodes[0]).get("/admin/v1/audit?limit=200").await.ok();
    assert_eq!(checked, all["data"].as_array().unwrap().len() as u64);
}
