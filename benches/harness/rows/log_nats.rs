//! `log_append_nats`: the cost of a commit to the log of a shard beside bare publishes.
//!
//! Both go to streams of three servers that sync every message, with the same leader.
//! `log_append_nats_file` is the same commits beside those of a log in files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::random;
use postrider_actors::store::postrider_log::{
    Chain, Claim, Entry, FileLog, FileOptions, Kind, Log, LogId, Next, Start, claim, encode_commit,
};
use postrider_cluster::NodeName;
use postrider_cluster::clock::BootClock;
use postrider_cluster::log::{ReplicatedLog, ReplicatedOptions};
use postrider_cluster::nats::{Nats, NatsOptions, NatsStream, StreamSpec};

use super::Group;
use crate::measure::{Measured, Stopwatch, alternate};
use crate::nats::Servers;
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group { rows: &["log_append_nats", "log_append_nats_file"], run };

const BARE_BUDGET_AND_GOAL: (f64, f64) = (0.75, 0.9);
/// Three servers sync each entry after two trips over the network of this machine.
const FILE_BUDGET_AND_GOAL: (f64, f64) = (0.05, 0.2);

/// The bytes of an entry's body.
const BODY_BYTES: usize = 4 * 1024;
const REPLICAS: usize = 3;
const STREAM_BYTES: i64 = 256 << 20;
/// The number of streams that are made to find two with the same leader.
const STREAMS: u16 = 16;
/// The maximum wait for the servers to elect a leader.
const PATIENCE: Duration = Duration::from_secs(30);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const CLUSTER: &str = "bench";

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let Some(servers) = Servers::start()? else { return Ok(Vec::new()) };
    let server = servers.addresses.first().ok_or("there are servers")?;
    let nats = Nats::connect(&NatsOptions {
        servers: vec![format!("nats://{server}")],
        credentials: None,
        name: CLUSTER.to_owned(),
        connect_within: CONNECT_WITHIN,
    })?;
    let first = stream(&nats, 0)?;
    let leader = leader(&first)?;
    let mut log = Writer::over(first)?;
    let subject = beside(&nats, leader.as_deref())?;
    let mut bare = Bare::connect(server, subject)?;
    let body = [7; BODY_BYTES];
    let [to_nats, beside_file] = GROUP.rows else { return Ok(Vec::new()) };
    let pair = alternate(
        scale,
        |time| rate(time, || log.append(&body)),
        |time| rate(time, || bare.publish(&body)),
    )?;
    let unit = format!("commits/s of {BODY_BYTES} bytes to the log of a shard, one by one");
    let reference = "publishes/s of that size to a stream, one by one";
    let nats_row = Row::of_rates(to_nats, unit.clone(), reference, pair, BARE_BUDGET_AND_GOAL);
    let data = setup::data_directory()?;
    let start = Start::new(LogId(random::bytes()));
    let files = FileLog::open(&data.path().join("log"), FileOptions::default(), start)?;
    let mut files = Writer::claiming(files)?;
    let pair = alternate(
        scale,
        |time| rate(time, || log.append(&body)),
        |time| rate(time, || files.append(&body)),
    )?;
    files.log.close()?;
    let reference = "commits/s of that size to a log in files, one by one";
    Ok(vec![nats_row, Row::of_rates(beside_file, unit, reference, pair, FILE_BUDGET_AND_GOAL)])
}

/// Makes the stream of a shard.
fn stream(nats: &Arc<Nats>, shard: u16) -> Result<Arc<NatsStream>> {
    let cluster = NodeName::new(CLUSTER)?;
    let spec = StreamSpec { cluster, shard, replicas: REPLICAS, bytes_max: STREAM_BYTES };
    let watch = Stopwatch::start();
    loop {
        match NatsStream::create(nats, &spec, LogId(random::bytes())) {
            Ok(()) => return Ok(Arc::new(NatsStream::open(nats, &spec)?)),
            // The servers elect a leader first.
            Err(_) if watch.elapsed() < PATIENCE => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn leader(stream: &NatsStream) -> Result<Option<String>> {
    Ok(stream.info()?.cluster.and_then(|it| it.leader))
}

/// Returns the subject of a stream with this leader. Another leader would be no reference.
fn beside(nats: &Arc<Nats>, wanted: Option<&str>) -> Result<String> {
    for shard in 1..STREAMS {
        let made = stream(nats, shard)?;
        if leader(&made)?.as_deref() == wanted {
            return Ok(format!("pr.{CLUSTER}.{shard}"));
        }
    }
    Err(format!("none of {STREAMS} streams has the leader of the first one").into())
}

/// Returns the operations per second, and the time of each.
fn rate(time: Duration, mut run: impl FnMut() -> Result<()>) -> Result<Measured> {
    let mut latencies = crate::measure::Latencies::new();
    let start = Stopwatch::start();
    let mut began = start.elapsed();
    while latencies.len() == 0 || began < time {
        run()?;
        let ended = start.elapsed();
        latencies.add(ended - began);
        began = ended;
    }
    Ok(Measured::operations(latencies, start.elapsed()))
}

/// The writer of a log, with its end.
struct Writer<L> {
    log: L,
    chain: Chain,
}

impl Writer<ReplicatedLog> {
    fn over(stream: Arc<NatsStream>) -> Result<Self> {
        let (id, options) = (stream.id(), ReplicatedOptions::default());
        Self::claiming(ReplicatedLog::open(id, 0, stream, Arc::new(BootClock), options)?)
    }
}

impl<L: Log> Writer<L> {
    fn claiming(log: L) -> Result<Self> {
        let me = Claim {
            node: CLUSTER.to_owned(),
            incarnation: [0; 16],
            program: String::new(),
            readable_from: 1,
        };
        let (id, tail) = (log.id(), claim(&log, &me, 0)?);
        Ok(Self { log, chain: Chain::new(id, 0, tail.last, tail.epoch, tail.hash) })
    }

    fn append(&mut self, body: &[u8]) -> Result<()> {
        let next = Next::after(&self.chain, self.chain.epoch());
        let entries = encode_commit(&next, Kind::Group, 0, body, self.log.entry_bytes_max())?;
        self.log.append(next.position, &entries)?;
        for bytes in entries {
            self.chain.push(&Entry::decode(bytes)?);
        }
        Ok(())
    }
}

/// A connection that publishes and waits for each answer.
struct Bare {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
    subject: String,
    message: Vec<u8>,
}

impl Bare {
    fn connect(server: &str, subject: String) -> Result<Self> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONNECT_WITHIN))?;
        let lines = BufReader::new(stream.try_clone()?);
        stream.write_all(b"CONNECT {\"verbose\":false}\r\nSUB answer 1\r\n")?;
        Ok(Self { stream, lines, subject, message: Vec::new() })
    }

    fn publish(&mut self, body: &[u8]) -> Result<()> {
        self.message.clear();
        write!(self.message, "PUB {} answer {}\r\n", self.subject, body.len())?;
        self.message.extend_from_slice(body);
        self.message.extend_from_slice(b"\r\n");
        self.stream.write_all(&self.message)?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line)? == 0 {
                return Err("the server of NATS closed the connection".into());
            }
            if line.starts_with("PING") {
                self.stream.write_all(b"PONG\r\n")?;
            }
            if let Some(length) = line.strip_prefix("MSG answer 1 ") {
                // The answer and the end of its line.
                let mut answer = vec![0; length.trim().parse::<usize>()? + 2];
                self.lines.read_exact(&mut answer)?;
                let answer = String::from_utf8_lossy(&answer);
                return match answer.contains("\"seq\"") && !answer.contains("\"error\"") {
                    true => Ok(()),
                    false => Err(format!("a publish is refused: {answer}").into()),
                };
            }
        }
    }
}
