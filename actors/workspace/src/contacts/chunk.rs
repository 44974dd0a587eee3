//! Contacts are indexed in chunks of 64 neighbouring places.
//!
//! So one word says which contacts of a chunk something is true of.

/// Places of a chunk.
pub(crate) const CHUNK: u64 = 64;

/// Which of a chunk's places: the lowest bit is the first.
pub(crate) type Mask = u64;

/// The chunk that a place is in.
pub(crate) const fn chunk_of(place: u64) -> u64 {
    place / CHUNK
}

/// Where a place is in its chunk.
pub(crate) const fn slot_of(place: u64) -> u8 {
    (place % CHUNK) as u8
}

/// The places of a chunk that a mask has, the last one first.
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
