//! The servers of a simulation: the log and the bucket, with their answers to calls.

use super::World;
use super::call::{Call, Input, NodeNumber, NodeValue, Snapshot, Value};
use crate::coordinator::BucketView;
use crate::placement::{Assignment, Candidate};
use crate::planted::Planted;
use crate::settle::Heard;
use crate::shard::Answer;
use crate::tenure::{NodeKey, TenureInput, Terms};

/// The time for which all nodes ask the same server while a replaced one still answers.
const ONE_SERVER_MS: u64 = 1_500;

impl World {
    pub(super) fn serve(&mut self, node: NodeNumber, life: u32, sent: u64, call: Call) {
        if self.now < self.silent_until {
            return;
        }
        let mut slow = 0;
        let answer = match call {
            Call::Publish { shard, .. }
            | Call::LookUp { shard, .. }
            | Call::Entries { shard, .. }
            | Call::Tail { shard, .. }
            | Call::Trim { shard, .. } => {
                // A server that was replaced is often slow, which may be why it was replaced.
                if self.now < self.streams[shard].stale.0 && self.draw(2) == 0 {
                    slow = 300 + self.draw(1_500);
                }
                if sent < self.streams[shard].lost_at {
                    // The call was under way to the servers that have lost their entries.
                    return;
                }
                slow = slow.max(self.nodes[node].late_until.saturating_sub(self.now));
                self.serve_log(shard, call)
            }
            call => self.serve_bucket(node, call),
        };
        if let Some(input) = answer {
            self.reply(node, life, slow, input);
        }
    }

    /// Returns the number of entries of a stream that the asked server shows.
    fn seen(&mut self, shard: usize) -> usize {
        let draw = self.draw(20_000);
        let (now, planted) = (self.now, self.options.planted);
        let stream = &mut self.streams[shard];
        if planted == Some(Planted::TailFromFollower) {
            if now >= stream.follower.0 {
                stream.follower = (now + draw, stream.entries.len());
            }
            return stream.follower.1;
        }
        // The asked server changes now and then.
        if now < stream.stale.0 && (now / ONE_SERVER_MS).is_multiple_of(2) {
            stream.stale.1
        } else {
            stream.entries.len()
        }
    }

    /// Returns the number that a starting engine reads: it reads long enough to meet any server.
    ///
    /// Nothing is drawn for it, so that runs without such a server stay the same.
    pub(super) fn seen_by_engine(&self, shard: usize) -> usize {
        let stream = &self.streams[shard];
        let has = stream.entries.len();
        // The planted fault believes any server, also one that is behind by only some entries.
        if self.options.planted == Some(Planted::ReadEndsEarly) {
            return has.saturating_sub(self.now as usize % 8);
        }
        let is_behind = self.now < stream.stale.0 && self.now.is_multiple_of(2);
        if is_behind { stream.stale.1 } else { has }
    }

    fn serve_log(&mut self, shard: usize, call: Call) -> Option<Input> {
        if self.now < self.streams[shard].silent_until {
            return None;
        }
        let seen = self.seen(shard);
        let is_wrong = self.draw(300) == 0 && self.now < self.calm_from;
        let is_silent = self.now < self.streams[shard].stale.0 && self.draw(2) == 0;
        let stream = &mut self.streams[shard];
        let end = stream.end(seen);
        Some(match call {
            Call::Publish { at, bytes, append, attempt, .. } => {
                if is_silent {
                    return None;
                }
                // The only writer was once refused without a reason.
                let heard = match !is_wrong && stream.publish(at, &bytes) {
                    true => Heard::Acknowledged,
                    false => Heard::Refused,
                };
                Input::Heard { shard, append, attempt, heard }
            }
            Call::LookUp { at, append, attempt, .. } => {
                let found = stream.read(seen, at).into_iter().next();
                let heard = found.map_or(Heard::Absent { last: end.last }, Heard::Found);
                Input::Heard { shard, append, attempt, heard }
            }
            Call::Trim { through, .. } => {
                self.trim(shard, through);
                return None;
            }
            Call::Entries { from, ticket, .. } if from <= stream.trimmed => {
                Input::Answer { shard, ticket, answer: Answer::Trimmed }
            }
            Call::Entries { from, ticket, .. } => {
                let entries = stream.read(seen, from);
                let answer = Answer::Entries { entries, last: end.last };
                Input::Answer { shard, ticket, answer }
            }
            Call::Tail { ticket, .. } => {
                let answer = Answer::Tail { last: end.last, hash: end.hash };
                Input::Answer { shard, ticket, answer }
            }
            _ => return None,
        })
    }

    fn serve_bucket(&mut self, node: NodeNumber, call: Call) -> Option<Input> {
        let now = self.now;
        let ttl = Some(Terms::DEFAULT.lease_ms);
        let name = self.nodes[node].name.clone();
        Some(match call {
            Call::Renew { revision, value } => {
                let (key, renewal) = (format!("node.{name}"), value.renewal);
                if revision == 0 {
                    self.judge.key_has_expired(&name);
                }
                let written = self.bucket.write(now, &key, Value::Node(value), revision, ttl);
                Input::Tenure(match written {
                    Some(revision) => TenureInput::Written { renewal, revision },
                    None => TenureInput::NotWritten { renewal },
                })
            }
            Call::ReadKey => Input::Key(self.key(&format!("node.{name}"))),
            Call::Lease { shard, node, ticket } => {
                let key = self.key(&format!("node.{node}"));
                let answer = Answer::Lease(key.map(|key| key.identity.incarnation));
                Input::Answer { shard, ticket, answer }
            }
            Call::Snapshot => Input::Snapshot(Box::new(self.snapshot_of_bucket())),
            Call::Lead { revision } => {
                let value = Value::Coordinator(name);
                self.bucket.write(now, "coordinator", value, revision, ttl);
                return None;
            }
            Call::Assign { assignment, revision } => {
                self.assign(assignment, revision);
                return None;
            }
            _ => return None,
        })
    }

    fn assign(&mut self, assignment: Assignment, revision: u64) {
        let value = Value::Assignment(assignment.clone());
        let before = self.bucket_view(Vec::new()).assignment.unwrap_or_default().0;
        if self.bucket.write(self.now, "assignment", value, revision, None).is_some() {
            for node in &self.nodes {
                if self.key(&format!("node.{}", node.name)).is_none() {
                    self.judge.key_has_expired(&node.name);
                }
            }
            self.judge.assigned(&before, &assignment, &self.nodes, self.now);
        }
    }

    fn node_value(&self, key: &str) -> Option<(u64, NodeValue)> {
        let kept = self.bucket.read(self.now, key)?;
        let Value::Node(value) = kept.value else { return None };
        Some((kept.revision, value))
    }

    fn key(&self, key: &str) -> Option<NodeKey> {
        let (revision, NodeValue { identity, renewal, .. }) = self.node_value(key)?;
        Some(NodeKey { revision, identity, renewal })
    }

    fn snapshot_of_bucket(&self) -> Snapshot {
        let nodes = self.nodes.iter().filter_map(|node| {
            let (_, value) = self.node_value(&format!("node.{}", node.name))?;
            Some((node.name.clone(), value))
        });
        let nodes: Vec<_> = nodes.collect();
        let candidates = nodes.iter().map(|(node, value)| Candidate {
            node: node.clone(),
            zone: String::new(),
            is_draining: value.is_draining,
            lacks_space: false,
        });
        Snapshot { view: self.bucket_view(candidates.collect()), nodes }
    }

    fn bucket_view(&self, nodes: Vec<Candidate>) -> BucketView {
        let coordinator = self.bucket.read(self.now, "coordinator").and_then(|kept| {
            let Value::Coordinator(name) = &kept.value else { return None };
            Some((name.clone(), kept.revision))
        });
        let assignment = self.bucket.read(self.now, "assignment").and_then(|kept| {
            let Value::Assignment(assignment) = &kept.value else { return None };
            Some((assignment.clone(), kept.revision))
        });
        BucketView { nodes, coordinator, assignment }
    }
}
