//! The log of a shard as its owner's engine sees it: it ends where the owner's own entries end.
//!
//! It owns what the owner knows of the end, and whether it has been fenced.
//! It promises that an engine never writes behind what it has not applied: once another's entry
//! stands in the log, nothing is appended through this handle any more.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use postrider_log::{AppendError, Entry, Header, Log, LogError, LogId, Position, Tail};

use super::replicated::ReplicatedLog;
use super::stream::Ends;
use crate::gate::ShardTenure;
use crate::settle::Settled;

/// What the engine's log tells the shard's life.
#[derive(Debug)]
pub(crate) enum Told {
    /// This entry was appended.
    Appended(Bytes),
    /// The log has another's entry, or less than it had.
    NotAppended(Settled),
}

/// Hears what the engine's log tells.
pub(crate) type Tell = Box<dyn Fn(Told) + Send>;

/// The log of one owner.
pub struct OwnedLog {
    inner: ReplicatedLog,
    own: Mutex<Own>,
}

struct Own {
    end: Tail,
    /// The owner's right to act.
    tenure: ShardTenure,
    /// What the stream has, about, and what it may have before groups are refused.
    bytes: u64,
    bytes_max: u64,
    fenced: Option<String>,
    tell: Tell,
}

impl std::fmt::Debug for OwnedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedLog").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Own {
    fn check(&self) -> Result<(), LogError> {
        self.fenced.clone().map_or(Ok(()), |why| Err(LogError::Failed(why)))
    }

    fn fence(&mut self, why: String, settled: Settled) -> LogError {
        (self.tell)(Told::NotAppended(settled));
        self.fenced = Some(why.clone());
        LogError::Failed(why)
    }
}

/// A part of the stream that groups do not get: claims, handoffs and checkpoints need it.
const RESERVED: u64 = 16;
/// What the servers keep of a message beside its bytes, about.
const MESSAGE_BYTES: u64 = 128;

fn kept_bytes(entries: usize, bytes: usize) -> u64 {
    bytes as u64 + entries as u64 * MESSAGE_BYTES
}

fn taken(header: &Header) -> String {
    format!("another node owns the shard: entry {} has epoch {}", header.position, header.epoch)
}

impl OwnedLog {
    /// The log behind the owner's claim, which must be its last entry.
    pub(crate) fn behind_claim(
        inner: ReplicatedLog,
        claim: Position,
        stream_bytes_max: u64,
        tenure: ShardTenure,
        tell: Tell,
    ) -> Result<Arc<Self>, LogError> {
        let (end, bytes) = (inner.tail()?, inner.ends()?.bytes);
        let bytes_max = stream_bytes_max - stream_bytes_max / RESERVED;
        let mut own = Own { end, tenure, bytes, bytes_max, fenced: None, tell };
        if own.end.last != claim {
            let header = own.end.header.take();
            let why = header.as_ref().map_or_else(|| "the claim is gone".to_owned(), taken);
            return Err(LogError::Failed(why));
        }
        Ok(Arc::new(Self { inner, own: Mutex::new(own) }))
    }

    /// Has every append from now on refused.
    pub(crate) fn fence(&self) {
        self.own.lock().fenced.get_or_insert_with(|| "the shard is given up".to_owned());
    }

    /// Takes what the log has behind the own end, which must be of the own epoch.
    fn take_own(&self, own: &mut Own, tail: Tail) -> Result<(), LogError> {
        let (mut entries, mut others) = (Vec::new(), None);
        if tail.last > own.end.last {
            self.inner.read(own.end.last.next(), &mut |entry| {
                if entry.header.epoch != own.end.epoch {
                    others = Some(entry.header);
                    return ControlFlow::Break(());
                }
                entries.push(entry.bytes);
                ControlFlow::Continue(())
            })?;
        }
        if let Some(header) = others {
            return Err(own.fence(taken(&header), Settled::Taken(header)));
        }
        entries.into_iter().for_each(|bytes| (own.tell)(Told::Appended(bytes)));
        own.end = tail;
        Ok(())
    }
}

impl Log for OwnedLog {
    fn id(&self) -> LogId {
        self.inner.id()
    }

    fn entry_bytes_max(&self) -> usize {
        self.inner.entry_bytes_max()
    }

    fn tail(&self) -> Result<Tail, LogError> {
        let own = self.own.lock();
        own.check()?;
        Ok(own.end.clone())
    }

    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError> {
        let mut own = self.own.lock();
        own.check().map_err(|error| AppendError::Refused(error.to_string()))?;
        // Nobody else may have written while the lease held. Afterwards the log may end where this
        // owner has read it to, and be another: servers compare positions only.
        if !own.tenure.holds() {
            return Err(AppendError::Refused("the node's lease may have ended".to_owned()));
        }
        match self.inner.append(at, entries) {
            Ok(()) => {}
            Err(AppendError::Taken(header)) => {
                own.fence(taken(&header), Settled::Taken(header.clone()));
                return Err(AppendError::Taken(header));
            }
            Err(error) => return Err(error),
        }
        (own.end.last, own.end.epoch, own.end.hash) = self.inner.known_end();
        own.bytes += kept_bytes(entries.len(), entries.iter().map(Bytes::len).sum());
        own.end.header = entries.last().and_then(|bytes| Header::decode(bytes).ok());
        entries.iter().for_each(|bytes| (own.tell)(Told::Appended(bytes.clone())));
        Ok(())
    }

    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let last = self.own.lock().end.last;
        self.inner.read(from, &mut |entry| {
            if entry.header.position > last {
                return ControlFlow::Break(());
            }
            visit(entry)
        })
    }

    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError> {
        self.inner.entry(at)
    }

    fn bytes_after(&self, after: Position) -> Result<u64, LogError> {
        let own = self.own.lock();
        own.check()?;
        let Tail { first, last, .. } = own.end;
        Ok(Ends { first: first.0, last: last.0, bytes: own.bytes }.bytes_after(after))
    }

    fn trim(&self, through: Position) -> Result<(), LogError> {
        // Appends need not wait for it, and it is right whoever owns the shard by then.
        let through = {
            let own = self.own.lock();
            own.check()?;
            through.min(own.end.last)
        };
        self.inner.trim(through)?;
        let Ends { first, bytes, .. } = self.inner.ends()?;
        let mut own = self.own.lock();
        own.end.first = Position(first.max(1));
        own.bytes = bytes;
        Ok(())
    }

    fn has_room(&self, bytes: usize) -> Result<(), String> {
        let mut own = self.own.lock();
        let needed = kept_bytes(1 + bytes / self.inner.entry_bytes_max(), bytes);
        if own.bytes + needed <= own.bytes_max {
            return Ok(());
        }
        own.bytes = self.inner.ends().map_err(|error| error.to_string())?.bytes;
        if own.bytes + needed <= own.bytes_max {
            return Ok(());
        }
        let Own { bytes, bytes_max, .. } = &*own;
        Err(format!(
            "the shard's log is full until a checkpoint is made: it has {bytes} bytes and takes \
             {bytes_max} (cluster.stream_bytes_max)"
        ))
    }

    fn reopen(&self) -> Result<Tail, LogError> {
        let mut own = self.own.lock();
        own.check()?;
        let tail = match self.inner.reopen() {
            Err(LogError::Lost { last, applied }) => {
                let why = format!("the log ends at {last}, but {applied} was acknowledged");
                return Err(own.fence(why, Settled::Lost { last }));
            }
            tail => tail?,
        };
        self.take_own(&mut own, tail)?;
        Ok(own.end.clone())
    }

    fn close(&self) -> Result<(), LogError> {
        self.inner.close()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use postrider_log::{Claim, Kind, claim, encode_commit};

    use super::*;
    use crate::clock::{SteadyClock as _, StillClock};
    use crate::gate::Gate;
    use crate::log::{FakeStream, ReplicatedOptions, Stream as _};

    const LOG: LogId = LogId([7; 16]);

    fn handle(stream: &FakeStream) -> ReplicatedLog {
        let (stream, clock) = (Arc::new(stream.clone()), Arc::new(StillClock::default()));
        ReplicatedLog::open(LOG, 0, stream, clock, ReplicatedOptions::default()).unwrap()
    }

    fn by(node: &str) -> Claim {
        let (node, program) = (node.to_owned(), "1".to_owned());
        Claim { node, incarnation: [1; 16], program, readable_from: 1 }
    }

    /// The log of an owner whose claim is the last entry, and what it tells.
    fn owned(stream: &FakeStream) -> (Arc<OwnedLog>, Receiver<Told>) {
        let claimed = claim(&handle(stream), &by("a"), 0).unwrap().last;
        let (sender, told) = channel();
        let tell = Box::new(move |it| drop(sender.send(it)));
        (OwnedLog::behind_claim(handle(stream), claimed, 1 << 20, tenure(), tell).unwrap(), told)
    }

    /// That of an owner whose lease holds until its clock is moved by a second.
    fn leased() -> (ShardTenure, Arc<StillClock>) {
        let clock = Arc::new(StillClock::default());
        let gate = Gate::new(clock.clone(), 1);
        gate.publish(1, 1_000);
        (ShardTenure::new(gate, Some(1)), clock)
    }

    fn tenure() -> ShardTenure {
        leased().0
    }

    #[test]
    fn an_owner_that_stood_idle_beyond_its_lease_writes_nothing_behind_what_it_did_not_read() {
        let stream = FakeStream::default();
        let claimed = claim(&handle(&stream), &by("a"), 0).unwrap().last;
        let (tenure, clock) = leased();
        let log = OwnedLog::behind_claim(handle(&stream), claimed, 1 << 20, tenure, Box::new(drop));
        let log = log.unwrap();
        claim(&*log, &by("a"), 0).unwrap();
        append(&*log, b"1").unwrap();
        // The log loses what only this owner has read, and another writes as much.
        stream.lose(2);
        let other = handle(&stream);
        claim(&other, &by("b"), 0).unwrap();
        append(&other, b"2").unwrap();
        clock.wait_ms(1_000);
        let error = append(&*log, b"3").unwrap_err();
        assert!(matches!(&error, AppendError::Refused(why) if why.contains("lease")), "{error}");
        assert_eq!(handle(&stream).tail().unwrap().last, Position(3), "it is one chain still");
        append(&other, b"4").unwrap();
    }

    fn append(log: &dyn Log, body: &[u8]) -> Result<(), AppendError> {
        let tail = log.tail().map_err(|error| AppendError::Refused(error.to_string()))?;
        let next = tail.next(tail.epoch);
        let entries = encode_commit(&next, Kind::Group, 0, body, log.entry_bytes_max()).unwrap();
        log.append(next.position, &entries)
    }

    #[test]
    fn an_owner_tells_what_it_appends_and_knows_its_end() {
        let stream = FakeStream::default();
        let (log, told) = owned(&stream);
        claim(&*log, &by("a"), 0).unwrap();
        append(&*log, b"1").unwrap();
        assert_eq!(log.tail().unwrap().last, Position(3));
        assert_eq!(told.try_iter().filter(|it| matches!(it, Told::Appended(_))).count(), 2);
    }

    #[test]
    fn whoever_was_replaced_writes_nothing_any_more() {
        let stream = FakeStream::default();
        let (log, told) = owned(&stream);
        claim(&*log, &by("a"), 0).unwrap();
        let other = handle(&stream);
        claim(&other, &by("b"), 0).unwrap();
        // It still ends where the owner's own entries do: the other's claim is not applied.
        assert_eq!(log.tail().unwrap().last, Position(2));
        assert!(matches!(append(&*log, b"1"), Err(AppendError::Taken(_))));
        let told: Vec<_> = told.try_iter().collect();
        assert!(matches!(told.last(), Some(Told::NotAppended(Settled::Taken(_)))), "{told:?}");
        assert!(log.reopen().is_err() && log.tail().is_err(), "it must not take the shard back");
        assert!(claim(&*log, &by("a"), 0).is_err());
        append(&other, b"2").unwrap();
    }

    #[test]
    fn a_claim_that_is_not_the_last_entry_starts_nothing() {
        let stream = FakeStream::default();
        let mine = claim(&handle(&stream), &by("a"), 0).unwrap().last;
        claim(&handle(&stream), &by("b"), 0).unwrap();
        let error =
            OwnedLog::behind_claim(handle(&stream), mine, 1 << 20, tenure(), Box::new(drop))
                .unwrap_err();
        assert!(error.to_string().contains("another node"), "{error}");
    }

    #[test]
    fn what_was_given_up_takes_nothing() {
        let stream = FakeStream::default();
        let (log, _told) = owned(&stream);
        claim(&*log, &by("a"), 0).unwrap();
        log.fence();
        assert!(append(&*log, b"1").is_err());
        assert_eq!(handle(&stream).tail().unwrap().last, Position(2));
    }

    #[test]
    fn it_is_trimmed_by_who_owns_it_and_knows_what_is_left() {
        let stream = FakeStream::default();
        let (log, _told) = owned(&stream);
        claim(&*log, &by("a"), 0).unwrap();
        (0..10).for_each(|_| append(&*log, b"1").unwrap());
        let all = log.bytes_after(Position::START).unwrap();
        log.trim(Position(6)).unwrap();
        assert_eq!(log.tail().unwrap().first, Position(7));
        assert!(log.bytes_after(Position::START).unwrap() < all);
        assert_eq!(log.bytes_after(Position(12)), Ok(0));
        claim(&handle(&stream), &by("b"), 0).unwrap();
        assert!(matches!(append(&*log, b"2"), Err(AppendError::Taken(_))));
        assert!(log.trim(Position(9)).is_err(), "it is another's now");
        assert_eq!(stream.ends().unwrap().first, 7);
    }

    #[test]
    fn a_full_log_has_room_for_claims_and_for_groups_when_it_was_trimmed() {
        let stream = FakeStream::default();
        let claimed = claim(&handle(&stream), &by("a"), 0).unwrap().last;
        let log =
            OwnedLog::behind_claim(handle(&stream), claimed, 16_000, tenure(), Box::new(drop))
                .unwrap();
        claim(&*log, &by("a"), 0).unwrap();
        while log.has_room(900).is_ok() {
            append(&*log, &[7; 800]).unwrap();
        }
        let why = log.has_room(900).unwrap_err();
        assert!(why.contains("cluster.stream_bytes_max"), "{why}");
        let had = stream.ends().unwrap().bytes;
        assert!(had > 10_000 && had < 15_000, "what is reserved is left: {had}");
        claim(&handle(&stream), &by("b"), 0).unwrap();
        let last = handle(&stream).tail().unwrap().last;
        let log = OwnedLog::behind_claim(handle(&stream), last, 16_000, tenure(), Box::new(drop))
            .unwrap();
        assert!(log.has_room(900).is_err());
        log.trim(last).unwrap();
        assert_eq!(log.has_room(900), Ok(()));
    }
}
