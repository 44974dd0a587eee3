//! Tests of an owner over servers of which any may be behind, so that one server's end proves
//! nothing.
//!
//! The end of a log is believed when an entry was appended behind it. So an owner that starts, or
//! continues after an unknown outcome, claims before it answers, and reads everything before the
//! claim.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::log::{Published, Stream, StreamError};

/// The number of drawn histories.
const SEEDS: u64 = 120;
/// The maximum number of entries that a lagging server lacks.
const LACKS: u64 = 4;

/// Servers of one stream; each call is answered by another one.
#[derive(Debug)]
pub(super) struct Servers {
    whole: FakeStream,
    drawn: Mutex<Drawn>,
    is_calm: AtomicBool,
}

#[derive(Debug)]
struct Drawn {
    rng: SmallRng,
    /// The number of calls that get no answer.
    silent: u32,
    /// A publish that lands later, if its sequence still fits.
    late: Option<(u64, Bytes)>,
}

impl Servers {
    fn new(seed: u64) -> Self {
        let drawn = Drawn { rng: SmallRng::seed_from_u64(seed), silent: 0, late: None };
        let is_calm = AtomicBool::new(false);
        Self { whole: FakeStream::default(), drawn: Mutex::new(drawn), is_calm }
    }

    fn draw(&self, below: u64) -> u64 {
        self.drawn.lock().rng.random_range(0..below)
    }

    /// Returns the number of entries that the answering server has.
    fn asked(&self) -> Result<u64, StreamError> {
        let last = self.whole.ends()?.last;
        if self.is_calm.load(Ordering::Relaxed) {
            return Ok(last);
        }
        if self.draw(4) == 0
            && let Some((expected, bytes)) = self.drawn.lock().late.take()
        {
            self.whole.publish(expected, &bytes);
        }
        if self.draw(250) == 0 {
            self.drawn.lock().silent = 45;
        }
        let mut drawn = self.drawn.lock();
        if drawn.silent > 0 {
            drawn.silent -= 1;
            return Err(StreamError("silence".to_owned()));
        }
        drop(drawn);
        let lacks = if self.draw(3) == 0 { self.draw(LACKS + 1) } else { 0 };
        Ok(self.whole.ends()?.last.saturating_sub(lacks))
    }
}

impl Stream for Servers {
    fn name(&self) -> &'static str {
        "servers"
    }

    fn publish(&self, expected: u64, bytes: &Bytes) -> Published {
        let silent = || Published::Silent("silence".to_owned());
        let is_heard = self.asked().is_ok();
        let drawn = if self.is_calm.load(Ordering::Relaxed) { u64::MAX } else { self.draw(12) };
        match drawn {
            0 => self.drawn.lock().late = Some((expected, bytes.clone())),
            1 => drop(self.whole.publish(expected, bytes)),
            2 => return Published::Refused("for nothing".to_owned()),
            _ if is_heard => return self.whole.publish(expected, bytes),
            _ => {}
        }
        silent()
    }

    fn message(&self, sequence: u64) -> Result<Option<Bytes>, StreamError> {
        if sequence > self.asked()? {
            return Ok(None);
        }
        self.whole.message(sequence)
    }

    fn messages(&self, from: u64, count: u64) -> Result<Vec<(u64, Bytes)>, StreamError> {
        let until = from.saturating_add(count).min(self.asked()? + 1);
        self.whole.messages(from, until.saturating_sub(from))
    }

    fn ends(&self) -> Result<Ends, StreamError> {
        let last = self.asked()?;
        Ok(Ends { last, ..self.whole.ends()? })
    }

    fn purge_before(&self, _sequence: u64) -> Result<(), StreamError> {
        Ok(())
    }
}

/// An owner with its records and its log.
struct Owner {
    log: Arc<OwnedLog>,
    records: Vec<Bytes>,
    applied: Position,
}

fn over(servers: &Arc<Servers>) -> Result<ReplicatedLog, LogError> {
    let (clock, options) = (Arc::new(StillClock::default()), ReplicatedOptions::default());
    ReplicatedLog::open(LOG, 0, servers.clone(), clock, options)
}

/// Returns the groups from a position on.
fn groups(log: &dyn Log, from: Position) -> Result<Vec<Bytes>, LogError> {
    let mut groups = Vec::new();
    log.read(from, &mut |entry| {
        if entry.header.kind == Kind::Group {
            groups.push(entry.body());
        }
        ControlFlow::Continue(())
    })?;
    Ok(groups)
}

impl Owner {
    /// Claims the shard, and reads the earlier entries.
    fn begin(servers: &Arc<Servers>, node: &str) -> Self {
        for _ in 0..20_000 {
            let begun = (|| {
                let claimed = claim(&over(servers).ok()?, &by(node), 0).ok()?.last;
                let inner = over(servers).ok()?;
                let report = Box::new(drop);
                let log = OwnedLog::behind_claim(inner, claimed, 1 << 20, tenure(), report).ok()?;
                let mut owner = Self { log, records: Vec::new(), applied: Position::START };
                owner.recover(node, 20).then_some(owner)
            })();
            if let Some(owner) = begun {
                return owner;
            }
        }
        panic!("nobody could claim the shard");
    }

    /// Applies the missing entries, and claims. The owner answers only after that has succeeded.
    fn go_on(&mut self, node: &str) -> bool {
        let Ok(lacked) = groups(&*self.log, self.applied.next()) else { return false };
        let Ok(end) = self.log.tail() else { return false };
        self.records.extend(lacked);
        self.applied = end.last;
        let Ok(tail) = claim(&*self.log, &by(node), 0) else { return false };
        // A store's mark advances to its claim, whatever it has applied before that.
        self.applied = tail.last;
        true
    }

    /// Opens the log again until that succeeds; `false` when another node owns the shard.
    fn recover(&mut self, node: &str, tries: usize) -> bool {
        (0..tries).any(|_| self.log.reopen().is_ok() && self.go_on(node))
    }

    /// Returns the state of an actor, which reads the log from its start.
    fn hot(&self) -> Vec<Bytes> {
        let read = (0..10_000).find_map(|_| groups(&*self.log, Position(1)).ok());
        read.expect("it can be read at some time")
    }

    fn check(&self, acknowledged: &[Bytes], seed: u64) {
        let hot = self.hot();
        assert_eq!(hot, self.records, "seed {seed}: the records are another than the actors");
        let mut hot = hot.iter();
        let lost = acknowledged.iter().find(|it| !hot.any(|there| there == *it));
        assert_eq!(lost, None, "seed {seed}: what was acknowledged is lost");
    }
}

/// Runs one history of groups, other owners, and failures.
///
/// Returns the number of times that the log was opened again.
fn history(seed: u64) -> usize {
    let servers = Arc::new(Servers::new(seed));
    let (mut owner, mut acknowledged) = (Owner::begin(&servers, "a"), Vec::new());
    let mut reopened = 0;
    for number in 0..80 {
        let node = format!("n{number}");
        match servers.draw(12) {
            0 => {
                let mut old = std::mem::replace(&mut owner, Owner::begin(&servers, &node));
                assert!(append(&*old.log, b"of who was replaced").is_err());
                assert!(!old.recover("old", 200), "seed {seed}: it takes the shard back");
            }
            1 => {}
            _ => {
                let body = Bytes::from(number.to_string());
                if append(&*owner.log, &body).is_ok() {
                    owner.records.push(body.clone());
                    owner.applied = owner.log.tail().unwrap().last;
                    acknowledged.push(body);
                    continue;
                }
                reopened += 1;
                if !owner.recover(&node, 200) {
                    owner = Owner::begin(&servers, &node);
                }
            }
        }
        owner.check(&acknowledged, seed);
    }
    servers.is_calm.store(true, Ordering::Relaxed);
    owner.check(&acknowledged, seed);
    assert!(acknowledged.len() > 30, "seed {seed}: {}", acknowledged.len());
    reopened
}

#[test]
fn whatever_server_answers_no_owner_lacks_what_was_acknowledged() {
    let reopened: usize = (0..SEEDS).map(history).sum();
    assert!(reopened as u64 > SEEDS, "{reopened}");
}
