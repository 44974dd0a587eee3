//! The files that a browser fetches.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::bundle;
use super::shell::Shells;
use super::sources::{Texts, sources};
use crate::http::pipeline::Compressed;

const SHELL: &str = "index.html";

/// The files of a page.
pub(super) struct Files {
    hash: String,
    known: BTreeMap<String, Arc<Compressed>>,
    shells: Shells,
}

impl Files {
    /// Returns the files of this build. A debug build reads them each time, so that reloads show
    /// edits.
    pub(super) fn current() -> Arc<Self> {
        static BUILT: LazyLock<Arc<Files>> = LazyLock::new(|| Arc::new(Files::of(&sources())));
        static LAST: Mutex<Option<(Texts, Arc<Files>)>> = Mutex::new(None);
        if cfg!(not(debug_assertions)) {
            return Arc::clone(&BUILT);
        }
        let texts = sources();
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.take().filter(|(known, _)| *known == texts);
        let files = known.map_or_else(|| Arc::new(Self::of(&texts)), |(_, files)| files);
        *last = Some((texts, Arc::clone(&files)));
        files
    }

    /// Makes the files that a browser fetches.
    ///
    /// The hash covers all of them, since they refer to each other by relative addresses.
    fn of(texts: &Texts) -> Self {
        let files = bundle::join(texts);
        let mut digest = Sha256::new();
        for (path, text) in &files {
            for part in [path, text] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        let hash: String = digest.finalize()[..8].iter().map(|it| format!("{it:02x}")).collect();
        let shells = Shells::new(&hash, texts.get(SHELL).map_or("", String::as_str), texts);
        let of = |(path, text): (String, String)| {
            let file = Arc::new(Compressed::new(content_type(&path), text));
            (path, file)
        };
        let known = files.into_iter().filter(|(path, _)| path != SHELL).map(of).collect();
        Self { hash, known, shells }
    }

    /// Returns a file, if the hash is the current one.
    pub(super) fn asset(&self, hash: &str, path: &str) -> Option<Arc<Compressed>> {
        if hash == self.hash { self.known.get(path).cloned() } else { None }
    }

    /// Returns the page itself, with the addresses of the files that a path below `/ui` needs.
    pub(super) fn shell(&self, path: &str, has_cookie: bool) -> Arc<Compressed> {
        self.shells.of(path, has_cookie)
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        // No parameters: the interface's own JSON has none either.
        "json" => "application/json",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(script: &str) -> Files {
        let shell = "<script src=\"{{assets}}/app.js\"></script>";
        let files = [("index.html", shell), ("app.js", script), ("lib/a.js", "")];
        Files::of(&files.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
    }

    #[tokio::test]
    async fn an_address_changes_with_any_file() {
        let (one, other) = (files("1"), files("2"));
        assert_ne!(one.hash, other.hash);
        assert_eq!(one.hash.len(), 16);
        assert!(one.asset(&one.hash, "app.js").is_some());
        for (hash, path) in [
            (&other.hash, "app.js"),
            (&one.hash, "index.html"),
            (&one.hash, "lib/a.js"),
            (&one.hash, "../mod.rs"),
            (&one.hash, ""),
        ] {
            assert!(one.asset(hash, path).is_none(), "{path}");
        }
        let shell = one.shell("", true).reply(&axum::http::HeaderMap::new()).await;
        let body = shell.into_response().into_body();
        let body = axum::body::to_bytes(body, 1000).await.unwrap();
        let expected = format!("<script src=\"/ui/assets/{}/app.js\"></script>", one.hash);
        assert_eq!(body, expected.as_bytes());
    }

    #[test]
    fn the_files_stay_until_a_source_changes() {
        assert!(Arc::ptr_eq(&Files::current(), &Files::current()));
    }
}
