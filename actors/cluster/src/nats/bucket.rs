//! The bucket of a cluster in NATS: a stream with one message per key, like its KV stores.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, RawMessageErrorKind, StorageType, Stream as JetStream,
};
use bytes::Bytes;

use super::stream::publish_outcome;
use super::{Nats, NatsError};
use crate::coordination::{Coordination, CoordinationError, KeyValue};
use crate::log::Published;
use crate::name::NodeName;

/// The bucket, over the connection that the logs share.
#[derive(Debug)]
pub struct NatsBucket {
    nats: Arc<Nats>,
    stream: JetStream<()>,
    /// The prefix of the subjects of its keys.
    prefix: String,
}

impl NatsBucket {
    /// Makes the bucket of a cluster, unless it exists already.
    ///
    /// # Errors
    /// The errors of making a stream.
    pub fn create(nats: &Arc<Nats>, cluster: &NodeName, replicas: usize) -> Result<(), NatsError> {
        nats.create_stream(Config {
            name: format!("KV_PR_{cluster}"),
            subjects: vec![format!("$KV.PR_{cluster}.>")],
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            num_replicas: replicas,
            max_bytes: -1,
            max_messages: -1,
            max_messages_per_subject: 1,
            max_consumers: -1,
            max_message_size: -1,
            // A key has its own time to live. Without markers nothing remains of an expired key.
            allow_message_ttl: true,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: false,
            ..Config::default()
        })
    }

    /// Opens an existing bucket.
    ///
    /// # Errors
    /// [`NatsError::Missing`] when it does not exist.
    pub fn open(nats: &Arc<Nats>, cluster: &NodeName) -> Result<Self, NatsError> {
        let name = format!("KV_PR_{cluster}");
        let stream = nats.open_stream(&name)?;
        nats.stream_info(&stream, &name)?;
        Ok(Self { nats: nats.clone(), stream, prefix: format!("$KV.PR_{cluster}.") })
    }

    fn silent(what: impl std::fmt::Display) -> CoordinationError {
        CoordinationError::Silent(what.to_string())
    }

    /// Returns the result of a call, if it ended, and switches the server after a silence.
    ///
    /// A server that the others do not reach keeps its connections and answers nothing. That holds
    /// for reads too: a node whose lease has ended reads before it writes again.
    fn answered<T>(
        &self,
        outcome: Option<Result<T, CoordinationError>>,
    ) -> Result<T, CoordinationError> {
        let outcome = outcome.unwrap_or_else(|| Err(Self::silent("no answer in time")));
        if matches!(outcome, Err(CoordinationError::Silent(_))) {
            self.nats.switch_server();
        }
        outcome
    }
}

impl Coordination for NatsBucket {
    fn write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        ttl_seconds: Option<u64>,
    ) -> Result<Option<u64>, CoordinationError> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        if let Some(ttl) = ttl_seconds {
            headers.insert("Nats-TTL", format!("{ttl}s"));
        }
        let subject = format!("{}{key}", self.prefix);
        let context = self.nats.context();
        let written = self.nats.wait(async move {
            context.publish_with_headers(subject, headers, value).await?.await
        });
        let silent = match written {
            Some(Ok(ack)) => return Ok(Some(ack.sequence)),
            Some(Err(error)) => match publish_outcome(&error) {
                Published::Refused(_) => return Ok(None),
                Published::Declined(what) | Published::Silent(what) => what,
                Published::Acknowledged => "an error without a cause".to_owned(),
            },
            None => "no answer in time".to_owned(),
        };
        self.answered(Some(Err(Self::silent(silent))))
    }

    fn read(&self, key: &str) -> Result<Option<KeyValue>, CoordinationError> {
        let (stream, subject) = (self.stream.clone(), format!("{}{key}", self.prefix));
        let read = self.nats.wait(async move {
            match stream.get_last_raw_message_by_subject(&subject).await {
                Ok(it) => Ok(Some(KeyValue { revision: it.sequence, value: it.payload })),
                Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => {
                    Ok(None)
                }
                Err(error) => Err(Self::silent(error)),
            }
        });
        self.answered(read)
    }

    fn keys(&self, prefix: &str) -> Result<BTreeMap<String, KeyValue>, CoordinationError> {
        Ok(self.keys_after(prefix, 0, usize::MAX)?.into_iter().collect())
    }

    fn made_at(&self) -> Result<u64, CoordinationError> {
        let stream = self.stream.clone();
        let info = self.nats.wait(async move { stream.get_info().await.map_err(Self::silent) });
        let info = self.answered(info)?;
        u64::try_from(info.created.unix_timestamp_nanos()).map_err(Self::silent)
    }

    fn keys_after(
        &self,
        prefix: &str,
        revision: u64,
        keys_max: usize,
    ) -> Result<Vec<(String, KeyValue)>, CoordinationError> {
        let (stream, own) = (self.stream.clone(), self.prefix.clone());
        // Keys end a part with a dot, so all keys with the prefix are below it.
        let filter = format!("{own}{prefix}>");
        let read = self.nats.wait(async move {
            let mut found = Vec::new();
            let mut from = revision + 1;
            while found.len() < keys_max {
                match stream.get_first_raw_message_by_subject(&filter, from).await {
                    Ok(it) => {
                        from = it.sequence + 1;
                        let key = it.subject.strip_prefix(&own).unwrap_or_default().to_owned();
                        let kept = KeyValue { revision: it.sequence, value: it.payload };
                        found.push((key, kept));
                    }
                    Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => {
                        break;
                    }
                    Err(error) => return Err(Self::silent(error)),
                }
            }
            Ok(found)
        });
        self.answered(read)
    }
}
