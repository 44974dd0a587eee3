//! A node is emptied and filled again under load, and a shard is moved.

use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::load::{Load, total};
use super::nodes::{Cluster, TOKEN, admin, done, settled};
use super::state::{about, once, owns, postrider, workspaces};
use crate::faults::Process;
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_emptied_and_filled_again_and_no_client_notices() {
    let cluster = Cluster::made();
    let (first, second) = (cluster.start("pr-1"), cluster.start("pr-2"));
    let both = |state: &Value| owns(state, "pr-1", 2) && owns(state, "pr-2", 2);
    once(&first, "two shards each", both).await;
    let workspaces = workspaces(&first).await;
    let load = Load::begin(&[&first, &second], &workspaces);
    let (output, drained) = postrider(&first, &["drain", "pr-1"]).await;
    assert!(output.status.success(), "{output:?}");
    let expected = json!({ "node": "pr-1", "state": "draining", "shards_left": 0 });
    assert_eq!(drained, expected);
    let emptied = once(&second, "all shards", |state| owns(state, "pr-2", 4)).await;
    assert_eq!(about(&emptied, "pr-1")["state"], "draining", "{emptied}");
    let reports = load.end().await;
    let (codes, unanswered, refused, slowest) = total(&reports);
    println!("{codes} codes, {unanswered} unanswered, {refused} refused, slowest {slowest:?}");
    assert!(codes > 6 && reports.iter().all(|it| it.acknowledged() > 0));
    assert_eq!(unanswered, 0, "everything that began is answered");
    for it in &reports {
        it.check(&first).await;
    }
    let ready = settled_ready(&first).await;
    assert_eq!(ready, (503, json!("draining")));
    // It stays draining over a restart.
    first.terminate();
    assert!(first.ended().status.success());
    let first = cluster.start("pr-1");
    let draining = async || (settled_ready(&first).await == (503, json!("draining"))).then_some(());
    // It has read nothing of the cluster at first.
    eventually("it drains", draining).await;
    let state =
        once(&first, "its name again", |state| about(state, "pr-1")["lease_ms"] != json!(null));
    assert_eq!(about(&state.await, "pr-1")["owned"], 0);
    let (output, answer) = postrider(&first, &["drain", "pr-2", "--timeout", "0"]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(answer["error"], "CONFLICT", "nobody is left to own them: {answer}");
    let (output, filled) = postrider(&second, &["undrain", "pr-1"]).await;
    assert!(output.status.success() && filled["state"] == "ready", "{output:?}");
    once(&second, "two shards each again", both).await;
    let mut client = admin(&first);
    assert_eq!(settled(&mut client, "GET", "/readyz", &Value::Null).await.status, 200);
}

/// Returns the answer of `/readyz`.
async fn settled_ready(node: &Process) -> (u16, Value) {
    match admin(node).get("/readyz").await {
        crate::faults::Outcome::Answered(answer) => (answer.status, answer.body["reason"].clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_shard_stays_where_it_was_moved_to() {
    let cluster = Cluster::made();
    let (first, second) = (cluster.start("pr-1"), cluster.start("pr-2"));
    let both = |state: &Value| owns(state, "pr-1", 2) && owns(state, "pr-2", 2);
    let state = once(&first, "two shards each", both).await;
    let shards = state["shards"].as_array().unwrap();
    let at = shards.iter().position(|it| it["owner"] == "pr-2").unwrap();
    let shard = at.to_string();
    let (output, moved) = postrider(&second, &["move", &shard, "--to", "pr-1"]).await;
    assert!(output.status.success(), "{output:?}");
    println!("{moved}");
    assert_eq!((&moved["from"], &moved["to"]), (&json!("pr-2"), &json!("pr-1")), "{moved}");
    assert!(moved["epoch"].as_u64() > shards[at]["epoch"].as_u64(), "{moved}");
    let told = async || {
        let log = second.log();
        let line = log.lines().find(|it| it.contains("an operator moves a shard"))?.to_owned();
        Some(line)
    };
    let line = eventually("the line of the log", told).await;
    assert!(line.contains("admin_token") && line.contains("127.0.0.1"), "{line}");
    assert!(line.contains("req_"), "{line}");
    // The other node gets another shard instead, for the loads to be even.
    let again = once(&first, "two shards each", both).await;
    assert_eq!(again["shards"][at]["owner"], "pr-1", "{again}");
    for (args, code) in [
        (["move", "4", "--to", "pr-1"], "NOT_FOUND"),
        (["move", "0", "--to", "pr-9"], "NOT_FOUND"),
        (["move", "0", "--to", "PR"], "VALIDATION_ERROR"),
    ] {
        let (output, answer) = postrider(&first, &args).await;
        assert_eq!((output.status.code(), &answer["error"]), (Some(1), &json!(code)), "{answer}");
    }
    let (_, answer) = postrider(&first, &["drain", "pr-9"]).await;
    assert_eq!(answer["error"], "NOT_FOUND", "{answer}");
    // A wrong token changes nothing.
    let mut guess = crate::faults::Client::new(first.address(), "wrong");
    let path = "/admin/v1/cluster/nodes/pr-1/drain";
    assert_eq!(settled(&mut guess, "POST", path, &json!({})).await.status, 401);
    let mut right = admin(&first);
    assert_eq!(settled(&mut right, "GET", path, &Value::Null).await.status, 405);
    let body = json!({ "to": 1 });
    let path = "/admin/v1/cluster/shards/0/move";
    let refused = settled(&mut right, "POST", path, &body).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("VALIDATION_ERROR")));
    done(&mut right, "/admin/v1/cluster/nodes/pr-2/undrain", json!({})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_are_moved_while_clients_work_and_no_answer_is_lost() {
    // A shard changes hands in about a second, and in more where all nodes share a machine.
    let cluster = Cluster::with(&[("CLUSTER__HOLD_MS", "5000")]);
    let (first, second) = (cluster.start("pr-1"), cluster.start("pr-2"));
    let both = |state: &Value| owns(state, "pr-1", 2) && owns(state, "pr-2", 2);
    once(&first, "two shards each", both).await;
    let workspaces = workspaces(&first).await;
    let load = Load::begin(&[&first, &second], &workspaces);
    for to in ["pr-1", "pr-2", "pr-1", "pr-2"] {
        let state = once(&first, "two shards each again", both).await;
        let shards = state["shards"].as_array().unwrap();
        let shard = shards.iter().position(|it| it["owner"] != to).unwrap().to_string();
        let moved = async || {
            let (output, moved) = postrider(&second, &["move", &shard, "--to", to]).await;
            // Two moves that are already under way delay a further one.
            assert!(output.status.success() || moved["error"] == "CONFLICT", "{output:?}");
            output.status.success().then_some(moved)
        };
        println!("{}", eventually("a move", moved).await);
    }
    load.acknowledges(20).await;
    let reports = load.end().await;
    let (codes, unanswered, refused, slowest) = total(&reports);
    println!("{codes} codes, {refused} refused, slowest {slowest:?}");
    assert_eq!(unanswered, 0, "everything that began is answered");
    for it in &reports {
        it.check(&second).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_is_asked_again_until_it_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let undrain = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(["cluster", "undrain", "--server", &server]).args(more);
        // As in a container, the settings contain the node and the token.
        command.env("POSTRIDER__CLUSTER__NODE", "pr-7").env("POSTRIDER__ADMIN__TOKEN", TOKEN);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let once = undrain(&[]);
    drop(listener.accept().await.unwrap());
    assert_eq!(once.await.unwrap().status.code(), Some(1), "it is asked once by default");
    let mut again = undrain(&["--wait", "60"]);
    drop(listener.accept().await.unwrap());
    let (mut stream, _) = tokio::select! {
        asked = listener.accept() => asked.unwrap(),
        ended = &mut again => panic!("it is not asked again: {ended:?}"),
    };
    let mut asked = vec![0; 1_024];
    let length = stream.read(&mut asked).await.unwrap();
    let asked = String::from_utf8_lossy(&asked[..length]);
    assert!(asked.starts_with("POST /admin/v1/cluster/nodes/pr-7/undrain "), "{asked}");
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    stream.write_all(answer.as_bytes()).await.unwrap();
    drop(stream);
    let output = again.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "pr-7 may own shards again\n");
}
