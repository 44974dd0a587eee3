//! The files of the page as they are written.
//!
//! They are compiled in. A debug build reads them from the disk.

use std::collections::BTreeMap;

use rust_embed::Embed;

#[derive(Embed)]
#[folder = "src/ui/app"]
struct AppFolder;

/// The texts of the page's files by their paths.
pub(super) type Texts = BTreeMap<String, String>;

/// Returns all files. All of them are text.
pub(super) fn sources() -> Texts {
    let read = |path: &str| {
        let file = AppFolder::get(path)?;
        Some((path.to_owned(), String::from_utf8_lossy(&file.data).into_owned()))
    };
    AppFolder::iter().filter_map(|path| read(&path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_text() {
        for path in AppFolder::iter() {
            let file = AppFolder::get(&path).unwrap();
            assert!(std::str::from_utf8(&file.data).is_ok(), "{path}");
        }
        assert!(sources().contains_key("index.html"));
    }
}
