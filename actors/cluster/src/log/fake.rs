//! A stream in memory, which several handles of a log may share.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::stream::{Ends, Published, Stream, StreamError};

/// A stream in memory. It stores nothing durably; logs over it are for tests and for trials.
#[derive(Debug, Clone, Default)]
pub struct FakeStream(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// The number of purged messages.
    purged: u64,
    messages: VecDeque<Bytes>,
}

impl Kept {
    fn last(&self) -> u64 {
        self.purged + self.messages.len() as u64
    }
}

impl FakeStream {
    /// Loses the last messages, as a broken server may.
    pub fn lose(&self, count: usize) {
        let mut kept = self.0.lock();
        let left = kept.messages.len().saturating_sub(count);
        kept.messages.truncate(left);
    }

    /// Changes a bit of the last message.
    pub fn flip(&self, byte: usize) {
        if let Some(last) = self.0.lock().messages.back_mut() {
            let mut bytes = last.to_vec();
            let at = byte.checked_rem(bytes.len()).unwrap_or(0);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
            *last = bytes.into();
        }
    }
}

impl Stream for FakeStream {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn publish(&self, expected: u64, bytes: &Bytes) -> Published {
        let mut kept = self.0.lock();
        if kept.last() != expected {
            return Published::Refused(format!("wrong last sequence: {}", kept.last()));
        }
        kept.messages.push_back(bytes.clone());
        Published::Acknowledged
    }

    fn message(&self, sequence: u64) -> Result<Option<Bytes>, StreamError> {
        let kept = self.0.lock();
        let at = sequence.checked_sub(kept.purged + 1).and_then(|at| usize::try_from(at).ok());
        Ok(at.and_then(|at| kept.messages.get(at)).cloned())
    }

    fn ends(&self) -> Result<Ends, StreamError> {
        let kept = self.0.lock();
        let bytes = kept.messages.iter().map(|it| it.len() as u64).sum();
        Ok(Ends { first: kept.purged + 1, last: kept.last(), bytes })
    }

    fn purge_before(&self, sequence: u64) -> Result<(), StreamError> {
        let mut kept = self.0.lock();
        while kept.purged + 1 < sequence && kept.messages.pop_front().is_some() {
            kept.purged += 1;
        }
        Ok(())
    }
}
