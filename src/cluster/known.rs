//! The tokens of callers that were valid, by their hashes. Pure.
//!
//! A caller whose token was valid before goes on, whatever else comes from the same address. Tokens
//! that are not known may be tried only a limited number of times per address.

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};

/// The number of tokens in each half. Once one is full, the other is dropped.
const TOKENS_MAX: usize = 10_000;

type Hash = [u8; 32];

/// The tokens that were valid most recently.
#[derive(Debug, Default)]
pub(super) struct KnownTokens {
    newer: HashSet<Hash>,
    older: HashSet<Hash>,
}

impl KnownTokens {
    /// Returns whether a token was valid when it was last checked.
    pub(super) fn has(&self, token: &str) -> bool {
        let hash = hash(token);
        self.newer.contains(&hash) || self.older.contains(&hash)
    }

    /// Records whether a token is valid.
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
