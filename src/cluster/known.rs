//! Pure: the tokens of callers that were found to be good, by their hashes.
//!
//! Whose token was good before goes on whatever else comes from the same address. Of the others an
//! address has only so many tries.

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};

/// Tokens of each half. Once one is full, the other is forgotten.
const TOKENS_MAX: usize = 10_000;

type Hash = [u8; 32];

/// The tokens that were good most recently.
#[derive(Debug, Default)]
pub(super) struct KnownTokens {
    newer: HashSet<Hash>,
    older: HashSet<Hash>,
}

impl KnownTokens {
    /// Whether a token was good when it was last asked about.
    pub(super) fn has(&self, token: &str) -> bool {
        let hash = hash(token);
        self.newer.contains(&hash) || self.older.contains(&hash)
    }

    /// Notes whether a token is good.
    pub(super) fn note(&mut self, token: &str, is_good: bool) {
        let hash = hash(token);
        if !is_good {
            self.newer.remove(&hash);
            self.older.remove(&hash);
        } else if self.newer.insert(hash) && self.newer.len() >= TOKENS_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_until_it_is_bad_or_many_others_were_used_since() {
        let mut known = KnownTokens::default();
        assert!(!known.has("a"));
        known.note("a", true);
        known.note("b", true);
        known.note("c", false);
        assert!(known.has("a") && known.has("b") && !known.has("c"));
        known.note("a", false);
        assert!(!known.has("a"));
        for at in 0..TOKENS_MAX {
            known.note(&at.to_string(), true);
        }
        assert!(known.has("b") && known.has("0"), "the half of them is older now");
        for at in 0..TOKENS_MAX {
            known.note("b", true);
            known.note(&format!("x{at}"), true);
            assert!(known.newer.len() < TOKENS_MAX && known.older.len() <= TOKENS_MAX);
        }
        assert!(known.has("b") && !known.has("0"), "who comes again stays known");
    }
}
