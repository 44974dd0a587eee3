//! Logs and buckets over real servers: the contract, races, checks at the start, a dead leader.

mod files;
mod missing_streams;
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use postrider_log::conformance::{Outcome, Subject};
use postrider_log::testing::*;
use postrider_log::{
    AppendError, ClaimError, Kind, Log, LogError, LogId, Position, encode_commit, log_contract,
};

use super::preflight::{Monitor, NatsFacts, PreflightError, Requirements, preflight};
use super::*;
use crate::checkpoints::{Archives, CheckpointsError, Digest};
use crate::clock::{BootClock, SteadyClock};
use crate::coordination::tests::a_bucket_keeps_its_contract;
use crate::log::tests::{FaultyStream, OverStream, open};
use crate::log::{ReplicatedLog, ReplicatedOptions, Stream};
use crate::name::NodeName;
use server::Server;

fn cluster() -> NodeName {
    NodeName::new("test").unwrap()
}

fn spec(shard: u16, replicas: usize) -> StreamSpec {
    StreamSpec { cluster: cluster(), shard, replicas, bytes_max: 64 << 20 }
}

/// A server alone, with the stream of one shard.
struct Alone {
    nats: Arc<Nats>,
    stream: Arc<NatsStream>,
    /// The server, which is dropped last.
    _server: Server,
}

impl Alone {
    fn new() -> Self {
        Self::keeping(&spec(0, 1))
    }

    fn keeping(spec: &StreamSpec) -> Self {
        let server = Server::alone(false, "");
        let nats = Server::connect(&[&server]);
        NatsStream::create(&nats, spec, ID).unwrap();
        let stream = Arc::new(NatsStream::open(&nats, spec).unwrap());
        Self { nats, stream, _server: server }
    }
}

/// The log under test, with the server that stores it.
struct OverNats {
    log: OverStream,
    _alone: Alone,
}

impl OverNats {
    fn new() -> Self {
        let alone = Alone::new();
        Self { log: OverStream(FaultyStream::new(alone.stream.clone())), _alone: alone }
    }
}

impl Subject for OverNats {
    fn open(&mut self) -> Arc<dyn Log> {
        self.log.open()
    }

    fn fail_next(&mut self, outcome: Outcome) {
        self.log.fail_next(outcome);
    }

    fn settle(&mut self, log: Arc<dyn Log>, outcome: Outcome) -> Arc<dyn Log> {
        self.log.settle(log, outcome)
    }
}

log_contract!(over_nats, OverNats::new());

#[test]
fn of_eight_writers_one_wins_each_position() {
    const ROUNDS: u64 = 1_000;
    let alone = Alone::new();
    let stream = alone.stream.clone();
    let line = std::sync::Barrier::new(8);
    let race = |name: u8| {
        let log = open(stream.clone());
        let mut won = 0;
        for round in 0..ROUNDS {
            line.wait();
            let tail = log.tail().unwrap();
            assert_eq!(tail.last, Position(round));
            let next = tail.next(tail.epoch + 1);
            let claim = postrider_log::Claim { incarnation: [name; 16], ..claim_body() };
            let body = claim.encode().unwrap();
            let entries = encode_commit(&next, Kind::Claim, 0, &body, 2_000).unwrap();
            line.wait();
            match log.append(next.position, &entries) {
                Ok(()) => won += 1,
                Err(AppendError::Taken(header)) => assert_eq!(header.position, next.position),
                Err(other) => panic!("{other}"),
            }
        }
        won
    };
    let won: u64 = std::thread::scope(|scope| {
        let racing: Vec<_> = (0..8).map(|name| scope.spawn(move || race(name))).collect();
        racing.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!(won, ROUNDS);
    assert_eq!(entries(&open(stream)).len() as u64, ROUNDS);
}

#[test]
fn a_claim_races_an_append_under_way() {
    let alone = Alone::new();
    let stream = alone.stream.clone();
    let owner = open(stream.clone());
    claimed(&owner);
    let mut acknowledged = Vec::new();
    for round in 0..200_u32 {
        let other = open(stream.clone());
        let line = std::sync::Barrier::new(2);
        let body = round.to_be_bytes();
        let appended = std::thread::scope(|scope| {
            let claim = scope.spawn(|| {
                line.wait();
                postrider_log::claim(&other, &claim_body(), 0)
            });
            let (at, entries) = group(&owner, &body);
            line.wait();
            let appended = owner.append(at, &entries);
            match claim.join().unwrap() {
                Ok(_) | Err(ClaimError::Append(AppendError::Taken(_))) => {}
                Err(other) => panic!("{other}"),
            }
            appended
        });
        match appended {
            Ok(()) => acknowledged.push(Bytes::copy_from_slice(&body)),
            Err(AppendError::Taken(header)) => assert_eq!(header.kind, Kind::Claim),
            // The owner noticed the claim before anything was published.
            Err(AppendError::Refused(_)) => {}
            Err(AppendError::Unknown(why)) => panic!("{why}"),
        }
        claimed(&owner);
    }
    assert_eq!(bodies(&owner), acknowledged);
    assert!(!acknowledged.is_empty());
}

#[test]
fn a_stream_that_is_no_log_is_refused() {
    let Alone { nats, _server, .. } = Alone::new();
    let missing = NatsStream::open(&nats, &spec(1, 1)).unwrap_err().to_string();
    assert!(missing.starts_with("CLUSTER_MISSING: "), "{missing}");
    NatsStream::create(&nats, &spec(1, 1), ID).unwrap();
    NatsStream::create(&nats, &spec(1, 1), ID).unwrap();
    let other = NatsStream::create(&nats, &spec(1, 1), LogId([9; 16])).unwrap_err();
    assert!(other.to_string().starts_with("CLUSTER_MISMATCH: "), "{other}");
    let three = NatsStream::create(&nats, &spec(2, 3), ID).unwrap_err().to_string();
    assert!(three.starts_with("NATS_UNREPLICATED: "), "{three}");
    assert_eq!(NatsStream::open(&nats, &spec(1, 1)).unwrap().id(), ID);
}

#[test]
fn a_full_stream_and_a_large_message_are_refused_for_sure() {
    let alone = Alone::keeping(&StreamSpec { bytes_max: 10_000, ..spec(0, 1) });
    let log = open(alone.stream.clone());
    claimed(&log);
    let refused = (0..20).find_map(|_| try_append(&log, &[1; 1_500]).err()).unwrap();
    assert!(matches!(refused, AppendError::Refused(_)), "{refused}");
    let tail = log.tail().unwrap();
    log.trim(Position(4)).unwrap();
    append(&log, &[1; 1_500]);
    let large = alone.stream.publish(tail.last.0 + 1, &vec![0; 2 << 20].into());
    assert!(matches!(large, crate::log::Published::Declined(_)), "{large:?}");
}

#[test]
fn the_bucket_in_nats_keeps_the_contract() {
    let Alone { nats, _server, .. } = Alone::new();
    NatsBucket::create(&nats, &cluster(), 1).unwrap();
    let bucket = NatsBucket::open(&nats, &cluster()).unwrap();
    // Keys expire by the server's clock, which a test cannot set.
    let wait = |for_ms: u64| {
        let until = BootClock.now_ms() + for_ms;
        while BootClock.now_ms() < until {
            bucket.server_is_there();
        }
    };
    a_bucket_keeps_its_contract(&bucket, &wait);
}

impl NatsBucket {
    /// Makes a round trip to the server.
    fn server_is_there(&self) {
        use crate::coordination::Coordination;
        self.read("nothing").unwrap();
    }
}

/// A monitor that reads pages with the simplest request.
struct Pages;

impl Monitor for Pages {
    fn page(&self, url: &str) -> Result<String, String> {
        let rest = url.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).map_err(|error| error.to_string())?;
        write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok(text.split_once("\r\n\r\n").unwrap().1.to_owned())
    }
}

#[test]
fn the_checks_at_the_start_see_what_a_server_is() {
    let check = |server: &Server, requirements: &Requirements| -> Result<NatsFacts, String> {
        preflight(&Server::options(&[server]), requirements, &[], &Pages)
            .map_err(|error: PreflightError| error.to_string())
    };
    let server = Server::alone(true, "");
    let monitor = vec![server.monitor.clone()];
    let synced = Requirements { monitor, ..Requirements::default() };
    let facts = check(&server, &synced).unwrap();
    assert_eq!(facts.servers.keys().collect::<Vec<_>>(), ["alone"]);
    let nats = Server::connect(&[&server]);
    NatsStream::create(&nats, &spec(0, 1), ID).unwrap();
    let stream = NatsStream::open(&nats, &spec(0, 1)).unwrap();
    let options = Server::options(&[&server]);
    let error = preflight(&options, &synced, &[&stream], &Pages).unwrap_err().to_string();
    assert!(error.starts_with("NATS_UNREPLICATED: "), "{error}");
    let lenient = Requirements { allow_unreplicated: true, ..synced };
    preflight(&options, &lenient, &[&stream], &Pages).unwrap();
    drop(server);
    let unreachable = NatsOptions { connect_within: Duration::from_secs(1), ..options };
    let error = preflight(&unreachable, &lenient, &[], &Pages).unwrap_err().to_string();
    assert!(error.starts_with("NATS_UNREACHABLE: "), "{error}");

    let lazy = Server::alone(false, "max_payload: 500KB");
    let error = check(&lazy, &Requirements::default()).unwrap_err();
    assert!(error.starts_with("NATS_PAYLOAD: "), "{error}");
    let lazy = Server::alone(false, "");
    let monitor = vec![lazy.monitor.clone()];
    let error = check(&lazy, &Requirements { monitor, ..Requirements::default() }).unwrap_err();
    assert!(error.starts_with("NATS_NOT_SYNCED: ") && error.contains("alone"), "{error}");
    check(&lazy, &Requirements { assume_synced: true, ..Requirements::default() }).unwrap();
}

#[test]
fn nothing_is_lost_when_the_leader_is_killed() {
    let mut servers = Server::three();
    let nats = Server::connect(&servers.iter().collect::<Vec<_>>());
    let until = BootClock.now_ms() + 120_000;
    // The three servers elect a leader first.
    while let Err(error) = NatsStream::create(&nats, &spec(0, 3), ID) {
        assert!(BootClock.now_ms() < until, "{error}");
    }
    let stream = Arc::new(NatsStream::open(&nats, &spec(0, 3)).unwrap());
    let options = Server::options(&servers.iter().collect::<Vec<_>>());
    let monitor = servers.iter().map(|server| server.monitor.clone()).collect();
    let requirements = Requirements { monitor, ..Requirements::default() };
    preflight(&options, &requirements, &[&stream], &Pages).unwrap();
    let log_options = ReplicatedOptions { entry_bytes_max: 2_000, stall_ms: 3_000 };
    let clock = Arc::new(BootClock);
    let log = ReplicatedLog::open(ID, 0, stream.clone(), clock, log_options).unwrap();
    claimed(&log);
    let mut acknowledged = Vec::new();
    let mut unknown = 0;
    for number in 0..200_u32 {
        if number == 100 {
            let leader = stream.info().unwrap().cluster.unwrap().leader.unwrap();
            servers.iter_mut().find(|server| server.name == leader).unwrap().kill();
        }
        let body = number.to_be_bytes();
        let (at, entries) = loop {
            match log.tail() {
                Ok(tail) => {
                    let next = tail.next(tail.epoch);
                    break (next.position, encode_commit(&next, Kind::Group, 0, &body, 2_000));
                }
                Err(LogError::Failed(_)) => assert!(BootClock.now_ms() < until, "no leader"),
                Err(other) => panic!("{other}"),
            }
        };
        match log.append(at, &entries.unwrap()) {
            Ok(()) => acknowledged.push(Bytes::copy_from_slice(&body)),
            Err(AppendError::Unknown(_)) => {
                unknown += 1;
                while log.reopen().is_err() || postrider_log::claim(&log, &claim_body(), 0).is_err()
                {
                    assert!(BootClock.now_ms() < until, "no leader");
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    let written = bodies(&log);
    assert!(acknowledged.iter().all(|body| written.contains(body)));
    assert!(written.len() <= acknowledged.len() + unknown);
    assert!(acknowledged.len() >= 190, "{} of 200", acknowledged.len());
}

#[test]
fn archives_are_stored_in_chunks_and_damage_is_reported() {
    let server = Server::alone(false, "");
    let nats = Server::connect(&[&server]);
    NatsArchives::create(&nats, &cluster(), 1).unwrap();
    NatsArchives::create(&nats, &cluster(), 1).unwrap();
    let archives = NatsArchives::open(nats.clone(), &cluster()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (file, fetched) = (dir.path().join("a"), dir.path().join("b"));
    let bytes: Vec<u8> = (0..1_300_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let digest = Digest::of_file(&file).unwrap();
    for name in ["0.1.1", "0.2.1", "0.3.2", "0.5.3", "10.1.1"] {
        archives.put(name, &file, &|| false).unwrap();
        assert_eq!(archives.get(name, Some(&fetched), &|| false), Ok(digest));
        assert_eq!(std::fs::read(&fetched).unwrap(), bytes);
    }
    // An interrupted upload is stored again, and its remains are removed with the others.
    let stream = nats.open_stream("OBJ_PR_test_checkpoints").unwrap();
    let until = BootClock.now_ms() + 60_000;
    let has_chunk = || loop {
        let (stream, chunk) = (stream.clone(), "$O.PR_test_checkpoints.C.0.4.2");
        match nats.wait(async move { stream.get_last_raw_message_by_subject(chunk).await }) {
            Some(Ok(_)) => return true,
            Some(Err(it)) if it.kind() == LastRawMessageErrorKind::NoMessageFound => return false,
            silent => assert!(BootClock.now_ms() < until, "{silent:?}"),
        }
    };
    assert!(archives.put("0.4.2", &file, &has_chunk).is_err());
    assert!(has_chunk());
    archives.put("0.3.2", &file, &|| false).unwrap();
    assert_eq!(archives.get("0.3.2", None, &|| false), Ok(digest));
    archives.keep_only(0, &["0.2.1".to_owned(), "0.3.2".to_owned()], 2).unwrap();
    // The archive that the next owner stored stays.
    let there = [("0.2.1", true), ("0.3.2", true), ("0.5.3", true), ("10.1.1", true)];
    for (name, is_there) in [("0.1.1", false)].into_iter().chain(there) {
        let got = archives.get(name, None, &|| false);
        assert_eq!(got.is_ok(), is_there, "{name}: {got:?}");
        assert!(is_there || matches!(got, Err(CheckpointsError::Damaged { .. })), "{got:?}");
    }
    assert!(!has_chunk());
    let purged =
        nats.wait(async move { stream.purge().filter("$O.PR_test_checkpoints.C.0.3.2").await });
    purged.unwrap().unwrap();
    let got = archives.get("0.3.2", None, &|| false);
    assert!(
        matches!(got, Err(CheckpointsError::Damaged { .. })),
        "its chunks are missing: {got:?}"
    );
}
