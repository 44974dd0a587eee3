//! Closes the data directory and its secret files to other users, or refuses them.

use std::fs::{Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::error::BootError;

/// The permission bits of the group and of others.
const NOT_OWNERS: u32 = 0o077;
/// The permission bits of others.
const OTHERS: u32 = 0o007;
/// The bit of a directory that many users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// The consequence of the permissions of a file or directory.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Only the intended users may use it.
    Closed,
    /// It belongs to this user; its permissions must become these.
    Close(u32),
    /// It cannot be used.
    Refuse(&'static str),
}

/// Makes sure that only this user can use `path`, and with `group` its group too.
///
/// # Errors
/// [`BootError`] when others can use it and that cannot be changed.
pub(super) fn close(path: &Path, group: bool) -> Result<(), BootError> {
    let failed = |source| BootError::File { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let mode = metadata.mode() & 0o7777;
    let refused =
        |why: String| BootError::Mode { path: path.to_owned(), mode, owner: metadata.uid(), why };
    match judge(&metadata, rustix::process::geteuid().as_raw(), group) {
        Verdict::Closed => Ok(()),
        Verdict::Refuse(why) => Err(refused(why.to_owned())),
        Verdict::Close(closed) => {
            let set = std::fs::set_permissions(path, Permissions::from_mode(closed));
            set.map_err(|error| refused(format!("they cannot be set to {closed:04o}: {error}")))?;
            let (path, was, is) = (path.display(), format!("{mode:04o}"), format!("{closed:04o}"));
            tracing::warn!(%path, was, is, "others could use it; its permissions were changed");
            Ok(())
        }
    }
}

fn judge(metadata: &Metadata, user: u32, group: bool) -> Verdict {
    judge_bits(metadata.mode() & 0o7777, metadata.uid() == user, group)
}

/// Judges permission bits. `ours` states whether the owner is this user.
fn judge_bits(mode: u32, ours: bool, group: bool) -> Verdict {
    let open = mode & if group { OTHERS } else { NOT_OWNERS };
    match (ours, open) {
        _ if mode & STICKY != 0 => Verdict::Refuse("many users share it"),
        // A volume belongs to the user who made it, and is used by its group.
        (false, 0) if group => Verdict::Closed,
        (false, _) => Verdict::Refuse("it belongs to another user"),
        (true, 0) => Verdict::Closed,
        (true, open) => Verdict::Close(mode & !open),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_narrowed_and_never_widened() {
        for (mode, group, expected) in [
            (0o700, false, Verdict::Closed),
            (0o500, false, Verdict::Closed),
            (0o755, false, Verdict::Close(0o700)),
            (0o770, false, Verdict::Close(0o700)),
            (0o770, true, Verdict::Closed),
            (0o2775, true, Verdict::Close(0o2770)),
            (0o644, false, Verdict::Close(0o600)),
        ] {
            assert_eq!(judge_bits(mode, true, group), expected, "{mode:o} {group}");
        }
    }

    #[test]
    fn what_another_user_owns_is_refused_unless_its_group_is_meant() {
        let refused = |mode, group| matches!(judge_bits(mode, false, group), Verdict::Refuse(_));
        assert!(refused(0o700, false) && refused(0o770, false) && refused(0o777, true));
        assert_eq!(judge_bits(0o2770, false, true), Verdict::Closed);
        assert!(matches!(judge_bits(0o1777, true, true), Verdict::Refuse(_)));
    }
}
