//! Raises the limit on open files, and divides it among connections and other uses.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The descriptors that the store may need: its files, and those that a flush opens beside them.
const STORE: u64 = 256;
/// The descriptors of listeners, standard streams, the runtime, and calls to a provider.
const OTHERS: u64 = 96;
/// The minimum number of connections: fewer are of no use.
const LEAST: u64 = 16;

/// Raises the soft limit on open files to the hard one. `None`: there is no limit.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit on open files");
            current
        }
    }
}

/// Returns the number of connections that a limit on open files allows, at most `wanted`.
///
/// `beside` is the number of other connections.
pub(crate) fn connections_within(limit: Option<u64>, wanted: usize, beside: usize) -> usize {
    let Some(limit) = limit else { return wanted };
    let left = limit.saturating_sub(STORE + OTHERS).saturating_sub(beside as u64).max(LEAST);
    wanted.min(usize::try_from(left).unwrap_or(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_has_its_own() {
        assert_eq!(connections_within(None, 10_000, 400), 10_000);
        assert_eq!(connections_within(Some(1_048_576), 10_000, 400), 10_000);
        assert_eq!(connections_within(Some(1024), 10_000, 400), 1024 - 256 - 96 - 400);
        assert_eq!(connections_within(Some(1024), 100, 400), 100);
        assert_eq!(connections_within(Some(64), 10_000, 400), 16);
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let limit = raise_limit();
        assert_eq!(limit, getrlimit(Resource::Nofile).maximum);
        assert_eq!(limit, getrlimit(Resource::Nofile).current);
    }
}
