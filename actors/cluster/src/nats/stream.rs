//! One stream of NATS JetStream, read from its leader only.

use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, Info, RawMessageErrorKind, RetentionPolicy, StorageType,
    Stream as JetStream,
};
use async_nats::jetstream::{self, ErrorCode};
use bytes::Bytes;
use postrider_log::LogId;
use tokio::task::JoinSet;

use super::{Nats, NatsError, of_server};
use crate::log::{Ends, Published, Stream, StreamError};
use crate::name::NodeName;

/// The key of the log's identity in the stream's metadata.
const LOG_ID: &str = "postrider-log-id";
/// The maximum number of bytes of a message: a mebibyte, the default bound of the servers.
const MESSAGE_BYTES_MAX: i32 = 1_048_576;

/// The stream of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// The cluster's name.
    pub cluster: NodeName,
    /// The shard.
    pub shard: u16,
    /// The number of servers that store it.
    pub replicas: usize,
    /// The maximum number of bytes of the stream; more are refused.
    pub bytes_max: i64,
}

impl StreamSpec {
    fn name(&self) -> String {
        format!("PR_{}_{}", self.cluster, self.shard)
    }

    fn subject(&self) -> String {
        format!("pr.{}.{}", self.cluster, self.shard)
    }

    fn config(&self, id: LogId) -> Config {
        let id = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
        Config {
            name: self.name(),
            subjects: vec![self.subject()],
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            num_replicas: self.replicas,
            max_bytes: self.bytes_max,
            max_messages: -1,
            max_messages_per_subject: -1,
            max_consumers: -1,
            max_message_size: MESSAGE_BYTES_MAX,
            deny_delete: true,
            allow_direct: false,
            metadata: [(LOG_ID.to_owned(), id)].into(),
            ..Config::default()
        }
    }
}

/// One stream, over a connection that all streams share.
#[derive(Debug)]
pub struct NatsStream {
    nats: Arc<Nats>,
    stream: JetStream<()>,
    name: String,
    subject: String,
    id: LogId,
}

impl NatsStream {
    /// Makes the stream with this identity of its log, unless it exists already.
    ///
    /// # Errors
    /// [`NatsError::Unreplicated`] when there are too few servers; [`NatsError::Stream`] when it
    /// exists with other settings.
    pub fn create(nats: &Arc<Nats>, spec: &StreamSpec, id: LogId) -> Result<(), NatsError> {
        nats.create_stream(spec.config(id))
    }

    /// Opens an existing stream.
    ///
    /// # Errors
    /// [`NatsError::Missing`] when it does not exist; [`NatsError::Stream`] when it is not a log's.
    pub fn open(nats: &Arc<Nats>, spec: &StreamSpec) -> Result<Self, NatsError> {
        let (name, subject) = (spec.name(), spec.subject());
        let stream = nats.open_stream(&name)?;
        let config = nats.stream_info(&stream, &name)?.config;
        let wrong = |what: &str| NatsError::Stream { stream: name.clone(), what: what.to_owned() };
        if config.allow_direct || config.discard != DiscardPolicy::New || !config.deny_delete {
            return Err(wrong("it takes what a log must refuse"));
        }
        let id = config.metadata.get(LOG_ID).and_then(|text| parse_id(text));
        let id = id.ok_or_else(|| wrong("its metadata names no log"))?;
        Ok(Self { nats: nats.clone(), stream, name, subject, id })
    }

    /// Returns the identity of the log.
    #[must_use]
    pub const fn id(&self) -> LogId {
        self.id
    }

    /// Returns the servers' information about the stream.
    ///
    /// # Errors
    /// The errors of the request.
    pub fn info(&self) -> Result<Info, NatsError> {
        self.nats.stream_info(&self.stream, &self.name)
    }
}

fn parse_id(text: &str) -> Option<LogId> {
    let byte = |at: usize| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok();
    let bytes = (0..16).map(byte).collect::<Option<Vec<_>>>()?;
    Some(LogId(bytes.try_into().ok().filter(|_| text.len() == 32)?))
}

/// Returns the outcome of a publish by its error.
pub(crate) fn publish_outcome(error: &jetstream::context::PublishError) -> Published {
    let text = error.to_string();
    let of_server = of_server(error);
    let code = of_server.map(jetstream::Error::error_code);
    let text = of_server.map_or_else(|| text.clone(), |error| format!("{text}: {error}"));
    let is_declined = code == Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        || code == Some(ErrorCode::STREAM_STORE_FAILED);
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Published::Declined(text),
        PublishErrorKind::Other if is_declined => Published::Declined(text),
        PublishErrorKind::WrongLastSequence | PublishErrorKind::WrongLastMessageId => {
            Published::Refused(text)
        }
        PublishErrorKind::Other if of_server.is_some() => Published::Refused(text),
        _ => Published::Silent(text),
    }
}

/// Returns the ends that the leader of a stream names.
///
/// A server that knows of no leader, as in an election, answers for itself as well. It may lack a
/// recently acknowledged entry, because it learns only with the next entry that one is committed.
/// The leader never counts itself among the other servers, and a follower does count it.
fn leaders_ends(info: &Info) -> Result<Ends, StreamError> {
    if let Some(cluster) = &info.cluster {
        let leader = cluster.leader.as_ref().filter(|leader| !leader.is_empty());
        let leader = leader.ok_or_else(|| StreamError("the stream has no leader".to_owned()))?;
        if cluster.replicas.iter().any(|other| other.name == *leader) {
            return Err(StreamError(format!("another server than the leader {leader} answered")));
        }
    }
    let state = &info.state;
    Ok(Ends { first: state.first_sequence, last: state.last_sequence, bytes: state.bytes })
}

async fn message(stream: &JetStream<()>, sequence: u64) -> Result<Option<Bytes>, StreamError> {
    match stream.get_raw_message(sequence).await {
        Ok(message) => Ok(Some(message.payload)),
        Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(None),
        Err(error) => Err(StreamError(error.to_string())),
    }
}

impl Stream for NatsStream {
    fn name(&self) -> &str {
        &self.name
    }

    fn publish(&self, expected: u64, bytes: &Bytes) -> Published {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Sequence", expected.to_string());
        let (subject, bytes) = (self.subject.clone(), bytes.clone());
        let context = self.nats.context();
        let published = self.nats.wait(async move {
            context.publish_with_headers(subject, headers, bytes).await?.await
        });
        match published {
            Some(Ok(ack)) if ack.sequence == expected + 1 && !ack.duplicate => {
                Published::Acknowledged
            }
            Some(Ok(ack)) => Published::Refused(format!("it has the sequence {}", ack.sequence)),
            Some(Err(error)) => publish_outcome(&error),
            None => Published::Silent("no answer in time".to_owned()),
        }
    }

    fn message(&self, sequence: u64) -> Result<Option<Bytes>, StreamError> {
        let stream = self.stream.clone();
        self.nats.answer(async move { message(&stream, sequence).await })
    }

    fn messages(&self, from: u64, count: u64) -> Result<Vec<(u64, Bytes)>, StreamError> {
        let stream = self.stream.clone();
        self.nats.answer(async move {
            let mut asked = JoinSet::new();
            for sequence in from..from.saturating_add(count) {
                let stream = stream.clone();
                asked.spawn(async move { (sequence, message(&stream, sequence).await) });
            }
            let mut found = Vec::new();
            while let Some(joined) = asked.join_next().await {
                let (sequence, bytes) = joined.map_err(|error| StreamError(error.to_string()))?;
                found.extend(bytes?.map(|bytes| (sequence, bytes)));
            }
            found.sort_unstable_by_key(|(sequence, _)| *sequence);
            Ok(found)
        })
    }

    fn ends(&self) -> Result<Ends, StreamError> {
        let stream = self.stream.clone();
        let ends = self.nats.answer(async move {
            let info = stream.get_info().await.map_err(|error| StreamError(error.to_string()))?;
            Ok(leaders_ends(&info))
        })?;
        // The server that was asked answers before the leader each time.
        ends.inspect_err(|_| self.nats.seek_leader())
    }

    fn purge_before(&self, sequence: u64) -> Result<(), StreamError> {
        let stream = self.stream.clone();
        self.nats.answer(async move {
            let purged = stream.purge().sequence(sequence).await;
            purged.map(|_| ()).map_err(|error| StreamError(error.to_string()))
        })
    }

    fn switch_server(&self) {
        self.nats.switch_server();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the information of a server about a stream that ends at 7, with this leader and
    /// others.
    fn info(leader: Option<&str>, others: &[&str]) -> Info {
        let config = serde_json::json!({
            "name": "PR_a_0", "subjects": ["pr.a.0"], "retention": "limits", "max_consumers": -1,
            "max_msgs": -1, "max_bytes": 1_000, "max_age": 0, "storage": "file",
            "num_replicas": 3, "discard": "new",
        });
        let of = |name: &&str| serde_json::json!({ "name": name, "current": true, "active": 0 });
        let others: Vec<_> = others.iter().map(of).collect();
        serde_json::from_value(serde_json::json!({
            "config": config, "created": "2026-01-01T00:00:00Z",
            "state": {
                "messages": 5, "bytes": 500, "first_seq": 3, "last_seq": 7, "consumer_count": 0,
                "first_ts": "2026-01-01T00:00:00Z", "last_ts": "2026-01-01T00:00:00Z",
            },
            "cluster": { "name": "c", "leader": leader, "replicas": others },
        }))
        .unwrap()
    }

    #[test]
    fn only_the_leader_says_where_a_stream_ends() {
        let ends = Ok(Ends { first: 3, last: 7, bytes: 500 });
        assert_eq!(leaders_ends(&info(Some("n1"), &["n2", "n3"])), ends);
        assert_eq!(leaders_ends(&info(Some("n1"), &[])), ends, "the only replica");
        let mut alone = info(None, &[]);
        alone.cluster = None;
        assert_eq!(leaders_ends(&alone), ends, "the only server");
        for leader in [None, Some("")] {
            let error = leaders_ends(&info(leader, &["n1", "n2", "n3"])).unwrap_err();
            assert!(error.to_string().contains("no leader"), "{error}");
        }
        let error = leaders_ends(&info(Some("n1"), &["n1", "n3"])).unwrap_err();
        assert!(error.to_string().contains("than the leader n1"), "{error}");
    }
}
