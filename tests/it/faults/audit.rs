//! `kill -9` leaves a change with its audit record, or neither.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::at_size;

use super::client::{Client, Outcome};
use super::process::Process;

const ROOT: &str = "/admin/v1/workspaces";

/// Creates and changes workspaces until the connection is lost. Returns the number of answers.
async fn administer(mut admin: Client, round: u64, client: u64) -> usize {
    let mut answered = 0;
    for number in 0.. {
        let id = format!("w-{round}-{client}-{number}");
        let path = format!("{ROOT}/{id}");
        let key = json!({"name": "k", "scopes": ["messaging:send"]});
        let calls = [
            (ROOT.to_owned(), json!({"id": id, "name": "A"})),
            (format!("{path}/credits"), json!({"add": 7})),
            (format!("{path}/webhooks"), json!({"url": "https://example.com/"})),
            (format!("{path}/keys"), key),
        ];
        for (path, body) in calls {
            match admin.post(&path, &body).await {
                Outcome::Answered(answer) if answer.status < 300 => answered += 1,
                Outcome::Answered(answer) => panic!("{path}: {answer:?}"),
                Outcome::Lost | Outcome::Refused => return answered,
            }
        }
    }
    answered
}

/// Returns the count of audit records, by action and workspace.
async fn audited(admin: &mut Client) -> HashMap<(String, String), usize> {
    let (mut found, mut cursor) = (HashMap::new(), String::new());
    loop {
        let page = admin.fetch(&format!("/admin/v1/audit?limit=200{cursor}")).await;
        let rows = page["data"].as_array().unwrap();
        if rows.is_empty() {
            return found;
        }
        for row in rows {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            *found.entry((text("action"), text("workspace"))).or_default() += 1;
        }
        cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
    }
}

async fn all_workspaces(admin: &mut Client) -> Vec<Value> {
    let mut all = Vec::new();
    for page in 1.. {
        let answer = admin.fetch(&format!("{ROOT}?limit=200&page={page}")).await;
        let rows = answer["data"].as_array().unwrap();
        all.extend_from_slice(rows);
        if rows.len() < 200 {
            break;
        }
    }
    all
}

/// Checks that each change has its record, and each record its change.
async fn check(process: &Process) -> usize {
    let mut admin = process.admin();
    let records = audited(&mut admin).await;
    let workspaces = all_workspaces(&mut admin).await;
    for workspace in &workspaces {
        let id = workspace["id"].as_str().unwrap();
        if id == "demo" {
            continue;
        }
        let webhooks = admin.fetch(&format!("{ROOT}/{id}/webhooks")).await["total"].clone();
        let changes = [
            ("workspace.create", 1),
            ("credits.add", workspace["credits"].as_u64().unwrap() / 7),
            ("webhook.create", webhooks.as_u64().unwrap()),
            ("key.create", workspace["counts"]["keys"].as_u64().unwrap()),
        ];
        for (action, count) in changes {
            let recorded = records.get(&(action.to_owned(), id.to_owned())).copied();
            assert_eq!(recorded.unwrap_or_default() as u64, count, "{action} of {id}");
        }
    }
    let made = records.keys().filter(|(action, _)| action == "workspace.create").count();
    assert_eq!(made, workspaces.len(), "a record without its workspace");
    let fault = admin.fetch("/admin/v1/audit/check").await["fault"].clone();
    assert_eq!(fault, Value::Null);
    records.iter().filter(|((action, _), _)| action != "server.start").map(|(_, n)| n).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_and_its_record_outlive_kill_9_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::start(dir.path());
    let (kills, mut answered) = (at_size(3, 8), 0);
    for round in 0..kills {
        let clients: Vec<_> =
            (0..4).map(|client| tokio::spawn(administer(process.admin(), round, client))).collect();
        let watched = process.admin();
        let mut watched = watched.another();
        // The kill comes as soon as some changes are done, while the others are under way.
        let enough = 5 * (round + 1) as usize;
        while all_workspaces(&mut watched).await.len() < answered / 4 + enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        process.kill();
        for client in clients {
            answered += client.await.unwrap();
        }
        process = Process::start(dir.path());
        let recorded = check(&process).await;
        assert!(recorded >= answered, "{recorded} records of {answered} answers");
    }
    let mut admin = process.admin();
    let starts = admin.fetch("/admin/v1/audit?action=server&limit=200").await;
    let starts = starts["data"].as_array().unwrap();
    assert!(starts.iter().all(|row| row["action"] == "server.start"), "no stop: it was killed");
    assert_eq!(starts.len() as u64, kills + 1);
}
