//! Chunks of 64 neighbouring places, by which contacts are indexed.
//!
//! One word marks the contacts of a chunk for which a condition holds.

/// The number of places in a chunk.
pub(crate) const CHUNK: u64 = 64;

/// A set of a chunk's places: the lowest bit is the first place.
pub(crate) type Mask = u64;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_last_first() {
        assert_eq!(places(2, 1 | 1 << 5 | 1 << 63).collect::<Vec<_>>(), [191, 133, 128]);
        assert_eq!(places(2, 0).count(), 0);
        assert_eq!((chunk_of(133), slot_of(133)), (2, 5));
    }
}
