//! Pure: a frame holds the events of one group commit, by workspace.

use postrider_domain::WorkspaceId;

use super::Position;
use crate::error::StoreError;

/// The maximum bytes of an encoded frame.
///
/// A group whose events would not fit is split before it is written, and a single batch must fit.
/// Lengths within a frame are stored as u32.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
const _: () = assert!(FRAME_BYTES_MAX <= u32::MAX as usize);
// The length of a workspace's id is stored as one byte.
const _: () = assert!(postrider_domain::workspace::CHARS_MAX <= u8::MAX as usize);

/// Bytes of a frame's header: its epoch, its number, and the checksum of everything else.
pub(crate) const HEADER_BYTES: usize = 8 + 8 + 4;

/// Bytes of a section's two lengths: of its workspace's id (1 byte) and of its events (4 bytes).
pub(crate) const SECTION_HEADER_BYTES: usize = 1 + 4;

/// The events of one workspace in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The workspace that the events belong to.
    pub workspace: WorkspaceId,
    /// The concatenated events, as [`postrider_domain::Event::encode_into`] encodes them.
    pub events: Vec<u8>,
}

/// One self-contained entry of the journal, of at most [`FRAME_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The number of openings of the journal for writing. It never decreases.
    pub epoch: u64,
    /// This frame's position in the journal.
    pub number: Position,
    /// The workspaces' events, in the order in which the workspaces joined the group.
    pub sections: Vec<Section>,
}

impl Frame {
    /// Appends the frame's bytes.
    ///
    /// These are `epoch` and `number` (u64, big endian) and the CRC-32 of everything else (u32, big
    /// endian). Then follow for each section the workspace's id (length u8) and its events (length
    /// u32, big endian).
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        self.encode_as(self.epoch, self.number, out);
    }

    /// Does the same with another epoch and number.
    pub(crate) fn encode_as(&self, epoch: u64, number: Position, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&epoch.to_be_bytes());
        out.extend_from_slice(&number.0.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        for Section { workspace, events } in &self.sections {
            // The assertions beside FRAME_BYTES_MAX prove that both lengths fit.
            out.push(workspace.as_str().len() as u8);
            out.extend_from_slice(workspace.as_str().as_bytes());
            out.extend_from_slice(&(events.len() as u32).to_be_bytes());
            out.extend_from_slice(events);
        }
        let checksum = checksum(&out[start..]);
        out[start + 16..start + HEADER_BYTES].copy_from_slice(&checksum.to_be_bytes());
        debug_assert!(
            out.len() - start <= FRAME_BYTES_MAX,
            "a frame of {} bytes",
            out.len() - start
        );
    }

    /// Decodes the bytes of [`encode_into`](Self::encode_into).
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the bytes are not such a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("a journal frame is not what was written".into());
        let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(damaged)?;
        let word = |at: usize| {
            header[at..].first_chunk().map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(damaged)
        };
        if header[16..] != checksum(bytes).to_be_bytes() {
            return Err(damaged());
        }
        let mut sections = Vec::new();
        while let Some((&id_bytes, after)) = rest.split_first() {
            let (id, after) = after.split_at_checked(id_bytes.into()).ok_or_else(damaged)?;
            let (length, after) = after.split_first_chunk().ok_or_else(damaged)?;
            let length = u32::from_be_bytes(*length) as usize;
            let (events, after) = after.split_at_checked(length).ok_or_else(damaged)?;
            let id = std::str::from_utf8(id).map_err(|_| damaged())?;
            let workspace = id.parse().map_err(|_| damaged())?;
            sections.push(Section { workspace, events: events.to_vec() });
            rest = after;
        }
        Ok(Self { epoch: word(0)?, number: Position(word(8)?), sections })
    }
}

fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..16]);
    hasher.update(&frame[HEADER_BYTES..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use postrider_domain::fuzz::edited;

    use super::*;

    fn frame() -> Frame {
        let section = |workspace: &str, events: &[u8]| Section {
            workspace: workspace.parse().unwrap(),
            events: events.to_vec(),
        };
        Frame {
            epoch: 3,
            number: Position(77),
            sections: vec![section("acme", b"one"), section("b", b"")],
        }
    }

    #[test]
    fn decodes_what_it_encoded() {
        let mut bytes = Vec::new();
        frame().encode_into(&mut bytes);
        assert_eq!(Frame::decode(&bytes), Ok(frame()));
    }

    #[test]
    fn any_changed_or_missing_byte_is_noticed() {
        let mut bytes = Vec::new();
        frame().encode_into(&mut bytes);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x40;
            assert!(Frame::decode(&bad).is_err(), "byte {at}");
            assert!(Frame::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    /// A frame with a matching checksum is read to its end, so the checks behind it are reached.
    #[test]
    fn fuzz_frames() {
        let encoded = |frame: Frame| {
            let mut bytes = Vec::new();
            frame.encode_into(&mut bytes);
            bytes
        };
        let empty = Frame { sections: Vec::new(), ..frame() };
        let examples = [encoded(frame()), encoded(empty)];
        let examples = examples.each_ref().map(Vec::as_slice);
        let fuzzer = bolero::check!().with_iterations(20_000);
        fuzzer.for_each(|script: &[u8]| {
            let mut input = edited(&examples, script);
            let is_read = Frame::decode(&input).is_ok();
            assert!(!is_read || input[16..HEADER_BYTES] == checksum(&input).to_be_bytes());
            if input.len() < HEADER_BYTES {
                return assert!(!is_read);
            }
            let fitting = checksum(&input).to_be_bytes();
            input[16..HEADER_BYTES].copy_from_slice(&fitting);
            if let Ok(frame) = Frame::decode(&input) {
                let held: usize = frame.sections.iter().map(|it| it.events.capacity()).sum();
                assert!(held <= input.len(), "{held} bytes of {}", input.len());
                assert_eq!(encoded(frame), input);
            }
        });
    }
}
