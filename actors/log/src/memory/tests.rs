//! The log in memory keeps the contract of every log.

use std::sync::Arc;

use super::*;
use crate::conformance::{ENTRY_BYTES_MAX, Outcome, Subject, log_contract};
use crate::testing::*;

struct InMemory(MemoryLog);

impl InMemory {
    fn new() -> Self {
        Self(MemoryLog::with_entry_bytes_max(&start(), ENTRY_BYTES_MAX))
    }
}

impl Subject for InMemory {
    fn open(&mut self) -> Arc<dyn Log> {
        Arc::new(self.0.open_again())
    }

    fn fail_next(&mut self, outcome: Outcome) {
        self.0.fail_next_append(match outcome {
            Outcome::Lost => MemoryFault::Lost,
            Outcome::Kept => MemoryFault::Kept,
            Outcome::Torn { bytes } => MemoryFault::Bytes(bytes),
        });
    }

    fn settle(&mut self, log: Arc<dyn Log>, _outcome: Outcome) -> Arc<dyn Log> {
        log.reopen().unwrap();
        log
    }
}

log_contract!(in_memory, InMemory::new());

#[test]
fn a_second_writer_takes_the_log_over() {
    let one = MemoryLog::new(&start());
    claimed(&one);
    append(&one, b"of one");
    let (at, late) = group(&one, b"late");
    let two = one.open_again();
    claimed(&two);
    let Err(AppendError::Taken(header)) = one.append(at, &late) else { panic!("it is not taken") };
    assert_eq!((header.kind, header.epoch), (crate::Kind::Claim, 2));
    append(&two, b"of two");
    let (at, _) = group(&one, b"");
    let next = crate::Next { epoch: 1, ..one.tail().unwrap().next(1) };
    let stale = crate::encode_commit(&next, crate::Kind::Group, 0, b"late", 1_000).unwrap();
    assert!(matches!(one.append(at, &stale), Err(AppendError::Refused(_))));
    assert_eq!(bodies(&one), ["of one", "of two"]);
}
