//! The documents are true: what they show is run, what they name exists.

mod claims;
mod english;
mod markdown;
mod paths;
mod session;
mod shape;
mod shell;

use std::path::{Path, PathBuf};

/// A document of the repository.
struct Document {
    /// Its path from the root, such as `docs/settings.md`.
    name: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document(name: &str) -> Document {
    let text = std::fs::read_to_string(root().join(name));
    Document { name: name.to_owned(), text: text.unwrap_or_else(|_| panic!("{name} is not there")) }
}

/// The files of a folder and of the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The readme and the texts below `docs/`, in the order of their names. Pictures are no documents.
fn documents() -> Vec<Document> {
    let mut paths = files(&root().join("docs"));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    let below = paths.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string());
    let names = std::iter::once("README.md".to_owned()).chain(below);
    names.map(|name| document(&name)).collect()
}
