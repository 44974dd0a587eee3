//! What a node tells of itself and of the cluster: health, readiness, metrics, the state of shards.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use postrider_cluster::coordination::{NodeRecord, ShardReport, Standing};
use postrider_cluster::{NodeName, Seen};
use serde_json::{Value, json};

use super::front::{Inner, bearer};
use super::operate;
use crate::http::health::{NodeReady, ReadyAnswer};
use crate::http::{ApiError, Code, Reply};

/// For how long NATS may be silent before the node is not ready, in milliseconds.
const SILENT_MS_MAX: u64 = 3_000;
/// How much clocks may seem to differ before that is a problem, in milliseconds: a node tells its
/// own each second.
const CLOCK_MS_MAX: u64 = 5_000;

impl Inner {
    /// Answers what needs no engine.
    pub(super) fn answer_itself(&self, request: &Request) -> Response<Body> {
        let (answers, headers) = (&self.shards.answers, request.headers());
        let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
        if !is_read {
            return self.has_no_such_method(headers);
        }
        match request.uri().path() {
            "/healthz" => answers.tell(headers, &json!({ "status": "ok" })),
            "/readyz" => match self.ready() {
                Ok(ready) => answers.tell(headers, &ready),
                Err(error) => answers.refuse(headers, error),
            },
            "/metrics" => {
                let page = self.metrics.render();
                let text = "text/plain; version=0.0.4; charset=utf-8";
                answers.give(headers, Reply::of(StatusCode::OK, text, page))
            }
            _ => answers.tell(headers, &self.status()),
        }
    }

    /// Whether a request is for the state of the cluster and does not show the admin token.
    pub(super) fn is_a_guess(&self, request: &Request) -> bool {
        let (shown, path) = (bearer(request.headers()), request.uri().path());
        let needs_token = path == "/admin/v1/cluster" || path.starts_with(operate::PREFIX);
        needs_token && !shown.is_some_and(|token| self.admin_token.matches(token))
    }

    pub(super) fn has_no_such_method(&self, headers: &HeaderMap) -> Response<Body> {
        let error = ApiError::new(Code::MethodNotAllowed, "the route has no such method");
        self.shards.answers.refuse(headers, error.closing_with_body())
    }

    fn ready(&self) -> Result<Value, ApiError> {
        let node = &self.shards.node;
        let reports = node.reports();
        let mut reasons = Vec::new();
        let silent = node.silent_ms();
        if silent > SILENT_MS_MAX {
            reasons.push(("log_unreachable", format!("NATS has not answered for {silent} ms")));
        } else if node.gate().term().is_none() {
            reasons.push(("log_unreachable", "the node is not a member now".to_owned()));
        }
        if node.seen().assignment.is_empty() {
            reasons.push(("no_owner", "no shard has been given to a node yet".to_owned()));
        }
        if node.seen().drains(node.name()) {
            reasons.push(("draining", "the node drains until it is undrained".to_owned()));
        }
        for report in reports.iter().filter(|it| it.state == Standing::Stopped) {
            let why = report.reason.as_deref().unwrap_or_default();
            reasons.push(("log_lost", format!("shard {} has stopped: {why}", report.shard)));
        }
        if let Some((reason, _)) = reasons.first() {
            let texts: Vec<_> = reasons.iter().map(|(_, text)| text.clone()).collect();
            let error = ApiError::new(Code::ServiceUnavailable, texts.join("; "));
            return Err(error.because(reason).with_reasons(texts));
        }
        let owned = reports.iter().filter(|it| it.state == Standing::Owned).count();
        Ok(json!(ReadyAnswer::Node(NodeReady {
            status: "ready",
            cluster: node.cluster().0.to_string(),
            node: node.name().to_string(),
            shards_owned: owned,
            log_reachable: true,
            lease_ms: node.gate().left_ms(),
            warnings: self.warnings.clone(),
        })))
    }

    /// The state of the cluster, as this node sees it.
    fn status(&self) -> Value {
        let node = &self.shards.node;
        let (cluster, record) = node.cluster();
        let mut seen = Seen::clone(&node.seen());
        // What this node says of itself is newer here.
        if let Some(own) = seen.nodes.get_mut(node.name()) {
            own.shards = node.reports();
        }
        let is_reachable = node.silent_ms() <= SILENT_MS_MAX;
        let shards: Vec<_> = (0..record.shards).map(|shard| shard_state(&seen, shard)).collect();
        let is_ready = shards.iter().all(|shard| shard["state"] == "owned");
        let now = self.shards.answers.clock.wall().as_millis();
        let own = (node.name(), node.gate().left_ms());
        let problems = [self.own_problems(is_reachable), problems(&seen, &shards, now)].concat();
        json!({
            "cluster": cluster.as_str(),
            "id": record.id,
            "shards_total": record.shards,
            "ready": is_ready,
            "log": {
                "backend": "nats",
                "version": node.server_version(),
                "replicas": record.replicas,
                "synced": self.is_synced,
                "reachable": is_reachable,
            },
            "nodes": nodes(&seen, own, now),
            "problems": problems,
            "shards": shards,
        })
    }

    fn own_problems(&self, is_reachable: bool) -> Vec<String> {
        let node = &self.shards.node;
        let silent = (!is_reachable).then(|| "NATS does not answer this node".to_owned());
        let wrong = (!node.clock_agrees())
            .then(|| "this node claims no shard: its clock is not that of most nodes".to_owned());
        silent.into_iter().chain(node.nats_problem()).chain(wrong).collect()
    }
}

fn count(record: &NodeRecord, state: Standing) -> usize {
    record.shards.iter().filter(|it| it.state == state).count()
}

/// The nodes that are there, and those that the assignment names.
fn nodes(seen: &Seen, own: (&NodeName, u64), now: u64) -> Vec<Value> {
    let mut nodes: BTreeMap<&NodeName, Value> = BTreeMap::new();
    for placed in &seen.assignment {
        for name in placed.owner.iter().chain(&placed.standbys) {
            nodes.entry(name).or_insert_with(|| {
                json!({
                    "node": name.as_str(), "zone": null, "advertise": null,
                    "state": "unreachable", "version": null, "owned": 0, "following": 0,
                    "lease_ms": null, "clock_ms": null,
                })
            });
        }
    }
    for (name, record) in &seen.nodes {
        let clock = i128::from(record.wall_ms) - i128::from(now);
        let is_own = name == own.0;
        nodes.insert(
            name,
            json!({
                "node": name.as_str(),
                "zone": record.zone,
                "advertise": record.advertise,
                "state": if seen.drains(name) { "draining" } else { "ready" },
                "version": record.version,
                "owned": count(record, Standing::Owned),
                "following": count(record, Standing::Following),
                "lease_ms": is_own.then_some(own.1),
                "clock_ms": if is_own { 0 } else { i64::try_from(clock).unwrap_or(i64::MAX) },
            }),
        );
    }
    nodes.into_values().collect()
}

fn shard_state(seen: &Seen, shard: u16) -> Value {
    let reports: Vec<(&NodeName, &ShardReport)> = seen
        .nodes
        .iter()
        .flat_map(|(name, record)| record.shards.iter().map(move |report| (name, report)))
        .filter(|(_, report)| report.shard == shard)
        .collect();
    let of = |state| reports.iter().find(|(_, report)| report.state == state);
    let owner = seen.owner(shard);
    let stopped = of(Standing::Stopped);
    let state = match (owner, stopped, of(Standing::Claiming)) {
        (Some(_), ..) => "owned",
        (None, Some(_), _) => "stopped",
        (None, None, Some(_)) => "claiming",
        (None, None, None) => "unowned",
    };
    let newest = reports.iter().max_by_key(|(_, it)| (it.epoch, it.position)).map(|(_, it)| *it);
    let report = owner.map(|(_, _, report)| report).or(newest);
    let applied: BTreeMap<&str, u64> =
        reports.iter().map(|(name, report)| (name.as_str(), report.position)).collect();
    let placed = seen.assignment.get(usize::from(shard));
    let standbys = placed.map_or(&[][..], |placed| &placed.standbys);
    json!({
        "shard": shard,
        "state": state,
        "owner": owner.map(|(name, ..)| name.as_str()),
        "standbys": standbys.iter().map(NodeName::as_str).collect::<Vec<_>>(),
        "epoch": report.map(|it| it.epoch),
        "position": report.map(|it| it.position),
        "applied": applied,
        "checkpoint_position": reports.iter().filter_map(|(_, it)| it.checkpoint).max(),
        "reason": stopped
            .or_else(|| of(Standing::Claiming))
            .filter(|_| owner.is_none())
            .and_then(|(_, it)| it.reason.as_deref()),
    })
}

fn problems(seen: &Seen, shards: &[Value], now: u64) -> Vec<String> {
    let mut problems = Vec::new();
    for shard in shards.iter().filter(|shard| shard["state"] != "owned") {
        let number = &shard["shard"];
        let help = match &shard["state"] {
            state if state == "stopped" => {
                format!(": `postrider cluster repair --shard {number}` says what can be kept")
            }
            _ => shard["reason"].as_str().map_or_else(String::new, |why| format!(": {why}")),
        };
        problems.push(format!("shard {number} is {}{help}", shard["state"]));
    }
    for (name, record) in &seen.nodes {
        let off = record.wall_ms.abs_diff(now);
        if off > CLOCK_MS_MAX {
            problems.push(format!("the clock of {name} differs by {off} ms"));
        }
    }
    problems
}
