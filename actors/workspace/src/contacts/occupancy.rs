//! The places of contacts, in chunks of 64 neighbours and in bitmaps of 4,096.
//!
//! One word marks the contacts of a chunk for which a condition holds. A bitmap has the places that
//! have a contact.

/// The number of places in a chunk.
pub(crate) const CHUNK: u64 = 64;

/// A set of a chunk's places: the lowest bit is the first place.
pub(crate) type Mask = u64;

/// The number of chunks in a bitmap.
const CHUNKS: u64 = 64;

/// Returns the chunk of a place.
pub(crate) const fn chunk_of(place: u64) -> u64 {
    place / CHUNK
}

/// Returns the position of a place in its chunk.
pub(crate) const fn slot_of(place: u64) -> u8 {
    (place % CHUNK) as u8
}

/// Returns the places of a chunk that are in a mask, the last one first.
pub(crate) fn places(chunk: u64, mut mask: Mask) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let highest = mask.checked_ilog2()?;
        mask &= !(1 << highest);
        Some(chunk * CHUNK + u64::from(highest))
    })
}

/// Returns the bitmap of a chunk.
pub(crate) const fn bitmap_of(chunk: u64) -> u64 {
    chunk / CHUNKS
}

/// Returns `bitmap` with a place filled or emptied; `None` if no place is filled afterwards.
pub(crate) fn with_place(bitmap: Option<Vec<u8>>, place: u64, filled: bool) -> Option<Vec<u8>> {
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
    fn places_come_last_first() {
        assert_eq!(places(2, 1 | 1 << 5 | 1 << 63).collect::<Vec<_>>(), [191, 133, 128]);
        assert_eq!(places(2, 0).count(), 0);
        assert_eq!((chunk_of(133), slot_of(133)), (2, 5));
    }

    #[test]
    fn filled_places_are_listed_last_first() {
        let mut bitmap = None;
        for place in [4096, 4096 + 63, 4096 + 64, 8191] {
            bitmap = with_place(bitmap, place, true);
        }
        let filled: Vec<_> = chunks(1, bitmap.as_ref().unwrap()).collect();
        assert_eq!(filled, [(127, 1 << 63), (65, 1), (64, 1 | 1 << 63)]);
        for place in [4096, 4096 + 63, 4096 + 64] {
            bitmap = with_place(bitmap, place, false);
            assert!(bitmap.is_some());
        }
        assert_eq!(with_place(bitmap, 8191, false), None);
        assert_eq!(bitmap_of(63), 0);
        assert_eq!(bitmap_of(64), 1);
    }
}
