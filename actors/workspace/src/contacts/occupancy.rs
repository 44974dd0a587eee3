//! Bitmaps of the places that have a contact, 4,096 places each.

use crate::contacts::chunk::{CHUNK, Mask};

/// The number of chunks in a bitmap.
const CHUNKS: u64 = 64;

/// Returns the bitmap of a chunk.
pub(crate) const fn bitmap_of(chunk: u64) -> u64 {
    chunk / CHUNKS
}

/// Returns `bitmap` with a place filled or emptied; `None` if no place is filled afterwards.
pub(crate) fn with(bitmap: Option<Vec<u8>>, place: u64, filled: bool) -> Option<Vec<u8>> {
    let mut bitmap = bitmap.unwrap_or_default();
    bitmap.resize((CHUNKS * CHUNK / 8) as usize, 0);
    let at = (place / 8 % (CHUNKS * CHUNK / 8)) as usize;
    let bit = 1 << (place % 8);
    if filled {
        bitmap[at] |= bit;
    } else {
        bitmap[at] &= !bit;
    }
    bitmap.iter().any(|byte| *byte != 0).then_some(bitmap)
}

/// Returns the chunks of a bitmap that have contacts, the last one first.
///
/// Each comes with the mask of its filled places.
pub(crate) fn chunks(number: u64, bitmap: &[u8]) -> impl Iterator<Item = (u64, Mask)> {
    let masks = bitmap
        .chunks_exact(8)
        .map(|bytes| Mask::from_le_bytes(bytes.try_into().unwrap_or_default()));
    let chunks = masks.enumerate().map(move |(at, mask)| (number * CHUNKS + at as u64, mask));
    chunks.rev().filter(|(_, mask)| *mask != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_places_are_listed_last_first() {
        let mut bitmap = None;
        for place in [4096, 4096 + 63, 4096 + 64, 8191] {
            bitmap = with(bitmap, place, true);
        }
        let filled: Vec<_> = chunks(1, bitmap.as_ref().unwrap()).collect();
        assert_eq!(filled, [(127, 1 << 63), (65, 1), (64, 1 | 1 << 63)]);
        for place in [4096, 4096 + 63, 4096 + 64] {
            bitmap = with(bitmap, place, false);
            assert!(bitmap.is_some());
        }
        assert_eq!(with(bitmap, 8191, false), None);
        assert_eq!(bitmap_of(63), 0);
        assert_eq!(bitmap_of(64), 1);
    }
}
