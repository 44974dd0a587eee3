//! The files of the page: compiled in, or, in a debug build, read from the disk at each request.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use rust_embed::Embed;
use sha2::{Digest, Sha256};

use super::shell::Shells;
use crate::http::pipeline::Compressed;

const SHELL: &str = "index.html";
/// The placeholder for the hash while files may change.
const CHANGING: &str = "dev";

#[derive(Embed)]
#[folder = "src/ui/app"]
struct AppFolder;

/// The files of a page.
pub(super) struct Files {
    hash: String,
    /// The compiled-in files; `None` if each file is read on demand.
    known: Option<BTreeMap<String, Arc<Compressed>>>,
    shells: Option<Shells>,
}

/// The time that a browser may cache a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheTime {
    /// Its address changes with its bytes.
    ForEver,
    Not,
}

impl Files {
    /// Returns the files of this build. A debug build reads them each time, so that reloads show
    /// edits.
    pub(super) fn current() -> Arc<Self> {
        static EMBEDDED: LazyLock<Arc<Files>> = LazyLock::new(|| {
            let read =
                |path: &str| Some((path.to_owned(), AppFolder::get(path)?.data.into_owned()));
            Arc::new(Files::of(AppFolder::iter().filter_map(|path| read(&path))))
        });
        if cfg!(debug_assertions) { Arc::new(Self::on_disk()) } else { Arc::clone(&EMBEDDED) }
    }

    /// Makes a set of files that do not change.
    ///
    /// The hash covers all of them, since they refer to each other by relative addresses.
    fn of(files: impl Iterator<Item = (String, Vec<u8>)>) -> Self {
        let files: BTreeMap<_, _> = files.collect();
        let mut digest = Sha256::new();
        for (path, bytes) in &files {
            digest.update((path.len() as u64).to_be_bytes());
            digest.update(path);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        let hash: String = digest.finalize()[..8].iter().map(|it| format!("{it:02x}")).collect();
        let text = |path: &str| files.get(path).map(|it| String::from_utf8_lossy(it).into_owned());
        let shells = text(SHELL).map(|shell| Shells::new(&shell, &hash, text));
        let known = files.into_iter().map(|(path, bytes)| {
            let file = Arc::new(response_of(&path, bytes));
            (path, file)
        });
        Self { known: Some(known.collect()), shells, hash }
    }

    fn on_disk() -> Self {
        let text = |path: &str| {
            AppFolder::get(path).map(|file| String::from_utf8_lossy(&file.data).into_owned())
        };
        let shells = text(SHELL).map(|shell| Shells::new(&shell, CHANGING, text));
        Self { hash: CHANGING.to_owned(), known: None, shells }
    }

    /// Returns a file, if the hash is the current one.
    pub(super) fn asset(&self, hash: &str, path: &str) -> Option<Arc<Compressed>> {
        if hash != self.hash || path == SHELL {
            return None;
        }
        match &self.known {
            Some(known) => known.get(path).cloned(),
            None => {
                let file = AppFolder::get(path)?;
                Some(Arc::new(response_of(path, file.data.into_owned())))
            }
        }
    }

    /// Returns the page itself, with the addresses of the files that a path below `/ui` needs.
    pub(super) fn shell(&self, path: &str, has_cookie: bool) -> Option<Arc<Compressed>> {
        self.shells.as_ref()?.of(path, has_cookie)
    }

    pub(super) const fn cache_time(&self) -> CacheTime {
        if self.known.is_some() { CacheTime::ForEver } else { CacheTime::Not }
    }
}

/// Makes the response for a file.
fn response_of(path: &str, bytes: Vec<u8>) -> Compressed {
    let bytes = match std::str::from_utf8(&bytes) {
        Ok(module) if path.ends_with(".js") => without_comments(module).into_bytes(),
        _ => bytes,
    };
    Compressed::new(content_type(path), bytes)
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        // No parameters: the interface's own JSON has none either.
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webmanifest" => "application/manifest+json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Removes the comments at the start of a line, `/** … */` and `// …`, from a module.
///
/// They are an eighth of its bytes. Lines keep their numbers, so an error's position is that of the
/// file. No text of a page may start with a comment mark at the start of a line.
fn without_comments(module: &str) -> String {
    let mut out = String::with_capacity(module.len());
    let mut is_inside = false;
    for line in module.split_inclusive('\n') {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let begins = text.trim_start();
        let kept = if is_inside || begins.starts_with("/**") {
            let rest = text.split_once("*/").map(|(_, rest)| rest);
            is_inside = rest.is_none();
            rest.unwrap_or_default()
        } else if begins.starts_with("// ") {
            ""
        } else {
            text
        };
        out.push_str(kept);
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(script: &str) -> Files {
        let shell = "<script src=\"{{assets}}/app.js\"></script>";
        let files = [("index.html", shell), ("app.js", script), ("lib/a.js", "")];
        Files::of(files.into_iter().map(|(path, text)| (path.to_owned(), text.into())))
    }

    #[tokio::test]
    async fn an_address_changes_with_any_file() {
        let (one, other) = (files("1"), files("2"));
        assert_ne!(one.hash, other.hash);
        assert_eq!((one.hash.len(), one.cache_time()), (16, CacheTime::ForEver));
        assert!(one.asset(&one.hash, "app.js").is_some());
        assert!(one.asset(&one.hash, "lib/a.js").is_some());
        for (hash, path) in [
            (&other.hash, "app.js"),
            (&one.hash, "index.html"),
            (&one.hash, "b.js"),
            (&one.hash, ""),
        ] {
            assert!(one.asset(hash, path).is_none(), "{path}");
        }
        let shell = one.shell("", true).unwrap().reply(&axum::http::HeaderMap::new()).await;
        let body = shell.into_response().into_body();
        let body = axum::body::to_bytes(body, 1000).await.unwrap();
        let expected = format!("<script src=\"/ui/assets/{}/app.js\"></script>", one.hash);
        assert_eq!(body, expected.as_bytes());
    }

    #[test]
    fn every_page_of_the_list_is_found_with_its_file() {
        let files = Files::on_disk();
        let list = AppFolder::get("lib/router.js").unwrap();
        let list = String::from_utf8(list.data.into_owned()).unwrap();
        let pages = files.shells.as_ref().unwrap().pages();
        assert_eq!(pages.len(), list.matches("file: '").count());
        for page in pages {
            assert!(files.asset(CHANGING, &format!("pages/{page}.js")).is_some(), "{page}");
        }
    }

    #[test]
    fn files_of_the_disk_are_below_their_folder() {
        let files = Files::on_disk();
        assert!(files.shell("phone", true).is_some());
        for path in ["../mod.rs", "/etc/passwd", "lib/../../mod.rs", "no.js", "index.html", ""] {
            assert!(files.asset(CHANGING, path).is_none(), "{path}");
        }
        let some = AppFolder::iter().find(|path| *path != SHELL);
        assert!(some.is_none_or(|path| files.asset(CHANGING, &path).is_some()));
    }

    #[test]
    fn comments_go_and_lines_stay() {
        for (module, sent) in [
            ("", ""),
            ("a();\n", "a();\n"),
            ("/** One. */\na();", "\na();"),
            ("  /**\n * Two,\n * long.\n */\na();\n", "\n\n\n\na();\n"),
            ("/** @type {any} */ (a)();\n", " (a)();\n"),
            ("a(); /** kept */\n//kept\n", "a(); /** kept */\n//kept\n"),
            ("  // One.\na(); // kept\n// Two.", "\na(); // kept\n"),
            ("/**\n// One.\n*/\n// Two.\n", "\n\n\n\n"),
            ("const at = '/**';\nb('*/');\n", "const at = '/**';\nb('*/');\n"),
            ("/** a */\n/** b */\nc /* d */;", "\n\nc /* d */;"),
        ] {
            assert_eq!(without_comments(module), sent, "{module}");
        }
    }
}
