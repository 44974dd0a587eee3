//! The page itself, which preloads the files that the page at its address needs.
//!
//! The script that starts the page finds out late that another one has the page at this address,
//! and that it needs the session. So the shell names both, by the list in `lib/router.js`.

use std::sync::Arc;

use super::bundle;
use super::sources::Texts;
use crate::http::pipeline::Compressed;

/// The placeholder in the shell for the folder of its files.
const PLACE: &str = "{{assets}}";
/// The placeholder in the shell for the preloaded files.
const AHEAD: &str = "<!-- ahead -->";
/// A person must be identified before anything is shown to them.
const SESSION: &str = "<link rel=\"preload\" as=\"fetch\" href=\"/ui/api/session\" crossorigin>";
const ROUTER: &str = "lib/router.js";

/// A page, as `lib/router.js` lists it.
struct PageRoute {
    /// The parts of its path; one that starts with a colon matches anything.
    parts: Vec<String>,
    /// Set if it is shown without a sign-in.
    is_open: bool,
    shell: Arc<Compressed>,
}

/// The shell of each page.
pub(super) struct Shells {
    routes: Vec<PageRoute>,
    /// The shell of an address without a page.
    start: Arc<Compressed>,
}

impl Shells {
    /// Makes the shells from the `hash` of the files, the page's text `shell` and all `files`.
    pub(super) fn new(hash: &str, shell: &str, files: &Texts) -> Self {
        let folder = format!("/ui/assets/{hash}");
        let make = |session: &str, script: &str| {
            let ahead = format!("{session}{script}");
            let text = shell.replace(AHEAD, &ahead).replace(PLACE, &folder);
            Arc::new(Compressed::new("text/html; charset=utf-8", text))
        };
        let pages = format!("<link rel=\"modulepreload\" href=\"{PLACE}/{}\">", bundle::PAGES);
        let first = bundle::first_modules(files);
        let route = |line: &str| {
            let (parts, file, is_open) = route(line)?;
            let session = if is_open { "" } else { SESSION };
            let is_first = first.contains(format!("pages/{file}.js").as_str());
            let script = if is_first { "" } else { &pages };
            let shell = make(session, script);
            Some(PageRoute { parts, is_open, shell })
        };
        let routes = files.get(ROUTER).iter().flat_map(|it| it.lines()).filter_map(route).collect();
        Self { routes, start: make("", "") }
    }

    /// Returns the shell for a path below `/ui`.
    ///
    /// A visitor without a session cookie uses a link that signs in, or is redirected to another
    /// page. For them only the files that start the page are certainly needed.
    pub(super) fn of(&self, path: &str, has_cookie: bool) -> Arc<Compressed> {
        let found = self.route(path).filter(|it| has_cookie || it.is_open);
        Arc::clone(found.map_or(&self.start, |it| &it.shell))
    }

    fn route(&self, path: &str) -> Option<&PageRoute> {
        let path = path.trim_matches('/');
        let parts: Vec<_> = path.split('/').collect();
        let fits = |(wanted, part): (&String, &&str)| wanted.starts_with(':') || wanted == part;
        self.routes.iter().find(|route| {
            route.parts.len() == parts.len() && route.parts.iter().zip(&parts).all(fits)
        })
    }
}

/// Parses a line of the list of pages: `{ path: '/codes/:id', file: 'code', may: 'otp:read' },`.
/// Returns the parts of its path, its file, and whether it is shown without a sign-in.
fn route(line: &str) -> Option<(Vec<String>, String, bool)> {
    let line = line.trim().strip_prefix("{ path: '")?;
    let path = line.split('\'').next()?.trim_start_matches('/');
    let file = line.split_once("file: '")?.1.split('\'').next()?;
    let parts = path.split('/').map(str::to_owned).collect();
    Some((parts, file.to_owned(), line.contains("open: true")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::sources::sources;

    const ROUTES: &str = "  { path: '/', file: 'home', menu: ['', 'Home', 'home'] },\n\
        { path: '/sign-in', file: 'sign-in', open: true },\n\
        { path: '/codes/:id', file: 'code', may: 'otp:read' },\n\
        { path: '/explorer', file: 'explorer', open: true },\n";

    #[test]
    fn every_page_of_the_list_is_found_with_its_file() {
        let texts = sources();
        let pages: Vec<_> = texts[ROUTER].lines().filter_map(route).collect();
        assert_eq!(pages.len(), texts[ROUTER].matches("file: '").count());
        for (_, file, _) in pages {
            assert!(texts.contains_key(&format!("pages/{file}.js")), "{file}");
        }
    }

    async fn ahead(shells: &Shells, path: &str, has_cookie: bool) -> (bool, bool) {
        let reply = shells.of(path, has_cookie).reply(&axum::http::HeaderMap::new()).await;
        let body = axum::body::to_bytes(reply.into_response().into_body(), 10_000).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.ends_with("<script src=\"/ui/assets/h/app.js\"></script>"), "{text}");
        let script = "<link rel=\"modulepreload\" href=\"/ui/assets/h/pages.js\">";
        (text.contains(SESSION), text.contains(script))
    }

    #[tokio::test]
    async fn a_page_names_what_the_start_finds_late() {
        let shell = "<!-- ahead --><script src=\"{{assets}}/app.js\"></script>";
        let files = [(ROUTER, ROUTES), ("pages/home.js", ""), ("pages/sign-in.js", "")];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let shells = Shells::new("h", shell, &files);
        for (path, has_cookie, session, script) in [
            ("", true, true, false),
            ("", false, false, false),
            ("sign-in/", true, false, false),
            ("codes/7", true, true, true),
            ("codes/7", false, false, false),
            ("codes/7/8", true, false, false),
            ("explorer", false, false, true),
        ] {
            assert_eq!(ahead(&shells, path, has_cookie).await, (session, script), "{path}");
        }
    }
}
