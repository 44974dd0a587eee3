//! Tests that a slow object is read again and never taken for damage, and that a missing one is.

use parking_lot::Mutex;

use super::*;

const WHOLE: &[u8] = b"everything up to 30";

/// An object that stalls midway, this many times, and may have lost its end.
struct Stalling {
    stalls: Mutex<usize>,
    has_all: bool,
    paused: Mutex<Vec<u64>>,
}

impl Objects for Stalling {
    /// The number of bytes that were read.
    type Object = usize;

    async fn open(&self, name: &str) -> Result<Option<usize>, CheckpointsError> {
        Ok((name != "none").then_some(0))
    }

    async fn read(&self, at: &mut usize, chunk: &mut [u8]) -> Result<Part, CheckpointsError> {
        if *at == 10 {
            let mut stalls = self.stalls.lock();
            if !self.has_all || *stalls > 0 {
                *stalls = stalls.saturating_sub(1);
                return Ok(Part::Slow);
            }
        }
        let part = &WHOLE[*at..WHOLE.len().min(*at + 5)];
        chunk[..part.len()].copy_from_slice(part);
        *at += part.len();
        Ok(if part.is_empty() { Part::End } else { Part::Bytes(part.len()) })
    }

    async fn has_all(&self, _: &str, _: &mut usize) -> Result<bool, CheckpointsError> {
        Ok(self.has_all)
    }

    async fn pause(&self, time: Duration) {
        self.paused.lock().push(time.as_secs());
    }
}

fn fetched(
    stalls: usize,
    has_all: bool,
    name: &str,
) -> (Result<Digest, CheckpointsError>, Vec<u8>, Vec<u64>) {
    let objects = Stalling { stalls: stalls.into(), has_all, paused: Mutex::default() };
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("fetched");
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let digest = runtime.block_on(fetch(&objects, name, Some(&to), true));
    (digest, std::fs::read(&to).unwrap_or_default(), objects.paused.into_inner())
}

fn digest() -> Digest {
    Digest { sha256: Sha256::digest(WHOLE).into(), bytes: WHOLE.len() as u64 }
}

#[test]
fn what_is_slow_is_read_again_from_its_beginning() {
    assert_eq!(fetched(0, true, "1"), (Ok(digest()), WHOLE.to_vec(), vec![]));
    assert_eq!(fetched(1, true, "1"), (Ok(digest()), WHOLE.to_vec(), vec![1]));
    assert_eq!(fetched(3, true, "1"), (Ok(digest()), WHOLE.to_vec(), vec![1, 2, 4]));
}

#[test]
fn what_stays_slow_cannot_be_reached_and_is_not_damaged() {
    let (digest, _, paused) = fetched(usize::MAX, true, "1");
    assert!(matches!(digest, Err(CheckpointsError::Slow(_))), "{digest:?}");
    assert_eq!(paused, [1, 2, 4]);
}

#[test]
fn what_lost_a_part_is_damaged_at_once() {
    for name in ["1", "none"] {
        let (digest, _, paused) = fetched(0, false, name);
        assert!(matches!(digest, Err(CheckpointsError::Damaged { .. })), "{digest:?}");
        assert!(paused.is_empty());
    }
}
