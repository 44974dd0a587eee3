//! What breaks a rule today, by number or by name: it is exact, and it only gets better.

/// Circles of imports by package: how many there are, and the files of the largest.
pub const CIRCLES: [(&str, usize, usize); 0] = [];

/// Public type names that stand more than once in a package.
pub const TYPE_NAMES: [(&str, &str); 0] = [];

/// Files or folders beside which one stands with an `s` more.
pub const PLURALS: [&str; 0] = [];

/// Types whose `impl` blocks stand in more than three files, and in how many.
pub const SPREAD_TYPES: [(&str, &str, usize); 0] = [];

/// The least number of files that begin `//! Pure:`; this one only rises.
pub const PURE_FILES_MIN: usize = 170;

/// Files of the folders of rules that do not begin `//! Pure:`.
pub const UNMARKED: usize = 0;

/// Imports inside of the workspace crate that climb the layers, and files that have no layer.
pub const CLIMBING: usize = 0;

/// Rooms that a crate of actors lacks, and places outside of them that name an actor.
pub const ROOMS: usize = 0;

/// Files that do not begin with a short sentence.
pub const OPENINGS: usize = 0;
