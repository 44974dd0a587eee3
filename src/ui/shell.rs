//! The page itself, which preloads the files that the page at its address needs.
//!
//! Modules import each other, and a browser that discovers one through another waits for the
//! network once for each step. So the shell names all of them: those that start the page, and those
//! of the page at its address, as `lib/router.js` lists them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::http::pipeline::Compressed;

/// The placeholder in the shell for the folder of its files.
const PLACE: &str = "{{assets}}";
/// The placeholder in the shell for the preloaded files.
const AHEAD: &str = "<!-- ahead -->";
/// A person must be identified before anything is shown to them.
const SESSION: &str = "<link rel=\"preload\" as=\"fetch\" href=\"/ui/api/session\" crossorigin>";
const START: &str = "app.js";
const ROUTER: &str = "lib/router.js";

/// A page, as `lib/router.js` lists it.
struct PageRoute {
    /// The parts of its path; one that starts with a colon matches anything.
    parts: Vec<String>,
    file: String,
    styles: Vec<String>,
    /// Set if it is shown without a sign-in.
    is_open: bool,
}

/// The shell of each page.
pub(super) struct Shells {
    routes: Vec<PageRoute>,
    /// The shells by the page's file; the empty name is that of an address without a page.
    shells: BTreeMap<String, Arc<Compressed>>,
}

impl Shells {
    /// Makes the shells from the page's text `shell`, the `hash` of its files, and `read` for a
    /// file.
    pub(super) fn new(shell: &str, hash: &str, read: impl Fn(&str) -> Option<String>) -> Self {
        let folder = format!("/ui/assets/{hash}");
        let routes: Vec<_> =
            read(ROUTER).iter().flat_map(|it| it.lines()).filter_map(route).collect();
        let mut shells = BTreeMap::new();
        let none = PageRoute { parts: vec![], file: String::new(), styles: vec![], is_open: true };
        for route in routes.iter().chain([&none]) {
            let text = shell.replace(AHEAD, &preload_links(route, &read)).replace(PLACE, &folder);
            let text = Arc::new(Compressed::new("text/html; charset=utf-8", text));
            shells.entry(route.file.clone()).or_insert(text);
        }
        Self { routes, shells }
    }

    /// Returns the shell for a path below `/ui`.
    ///
    /// A visitor without a session cookie uses a link that signs in, or is redirected to another
    /// page. For them only the files that start the page are certainly needed.
    pub(super) fn of(&self, path: &str, has_cookie: bool) -> Option<Arc<Compressed>> {
        let found = self.route(path).filter(|it| has_cookie || it.is_open);
        let file = found.map_or("", |it| &it.file);
        self.shells.get(file).cloned()
    }

    /// Returns the files of all pages.
    #[cfg(test)]
    pub(super) fn pages(&self) -> Vec<&str> {
        self.routes.iter().map(|route| route.file.as_str()).collect()
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

/// Parses a line of the list of pages: `{ path: '/codes/:id', file: 'code', styles: 'data' },`.
fn route(line: &str) -> Option<PageRoute> {
    let line = line.trim().strip_prefix("{ path: '")?;
    let value = |key: &str| line.split_once(key).and_then(|(_, rest)| rest.split('\'').next());
    let path = line.split('\'').next()?.trim_start_matches('/');
    Some(PageRoute {
        parts: path.split('/').map(str::to_owned).collect(),
        file: value("file: '")?.to_owned(),
        styles: value("styles: '")?.split(' ').map(str::to_owned).collect(),
        is_open: line.contains("open: true"),
    })
}

/// Returns the links that make a browser preload the files of a page.
fn preload_links(route: &PageRoute, read: &impl Fn(&str) -> Option<String>) -> String {
    let page = format!("pages/{}.js", route.file);
    let mut links = String::new();
    if !route.is_open {
        links.push_str(SESSION);
    }
    for style in &route.styles {
        let sheet =
            ["<link rel=\"preload\" as=\"style\" href=\"", PLACE, "/styles/", style, ".css\">"];
        links.extend(sheet);
    }
    for module in reachable_modules([START.to_owned(), page], read) {
        links.extend(["<link rel=\"modulepreload\" href=\"", PLACE, "/", &module, "\">"]);
    }
    links
}

/// Returns these modules and all that they import, the nearest first.
fn reachable_modules(
    first: impl IntoIterator<Item = String>,
    read: &impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut waiting: VecDeque<String> = first.into_iter().collect();
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    while let Some(path) = waiting.pop_front() {
        let Some(text) = read(&path) else { continue };
        if seen.insert(path.clone()) {
            waiting.extend(imported_modules(&path, &text));
            found.push(path);
        }
    }
    found
}

/// Returns the modules that a module imports before it runs. Comments may name others, for types.
fn imported_modules(path: &str, text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with(['*', '/']));
    let named = code.filter_map(|line| line.split_once(" from '")?.1.split('\'').next());
    let relative = named.filter(|name| name.starts_with('.') && name.ends_with(".js"));
    relative.map(|name| resolve_path(path, name)).collect()
}

/// Resolves the path of a module from the place where `name` is imported.
fn resolve_path(from: &str, name: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: &str = "<!-- ahead --><script src=\"{{assets}}/app.js\"></script>";

    fn read(path: &str) -> Option<String> {
        let text = match path {
            "app.js" => {
                "import { a } from './lib/a.js';\n/** @import { T } from './lib/types.js' */"
            }
            "lib/a.js" => "import {\n  b,\n} from './b.js';\nimport('../pages/home.js')",
            "lib/b.js" => "import { a } from './a.js';",
            "lib/router.js" => {
                "  { path: '/', file: 'home', styles: 'home' },\n  { path: '/sign-in', file: 'in', \
                 open: true, styles: 'in' },\n  { path: '/codes/:id', file: 'code', styles: 'a b' },"
            }
            "pages/home.js" => "import { c } from '../parts/c.js';",
            "pages/in.js" | "pages/code.js" | "parts/c.js" => "",
            _ => return None,
        };
        Some(text.to_owned())
    }

    async fn named(shells: &Shells, path: &str, has_cookie: bool) -> Vec<String> {
        let shell = shells.of(path, has_cookie).unwrap();
        let reply = shell.reply(&axum::http::HeaderMap::new()).await.into_response();
        let body = axum::body::to_bytes(reply.into_body(), 10_000).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let links = text.split("href=\"/ui/assets/h/").skip(1);
        links.map(|it| it.split('"').next().unwrap().to_owned()).collect()
    }

    #[tokio::test]
    async fn a_page_names_all_that_it_and_the_start_import() {
        let shells = Shells::new(SHELL, "h", read);
        let start = ["app.js", "lib/a.js", "lib/b.js"];
        for (path, has_cookie, styles, page) in [
            ("", true, vec!["home"], vec!["home.js", "../parts/c.js"]),
            ("", false, vec![], vec![]),
            ("sign-in/", true, vec!["in"], vec!["in.js"]),
            ("codes/7", true, vec!["a", "b"], vec!["code.js"]),
            ("codes/7", false, vec![], vec![]),
            ("codes/7/8", true, vec![], vec![]),
        ] {
            let mut expected: Vec<_> = styles.iter().map(|it| format!("styles/{it}.css")).collect();
            expected.extend(start.map(str::to_owned));
            expected.extend(page.iter().map(|it| resolve_path("pages/x", it)));
            let mut seen = named(&shells, path, has_cookie).await;
            expected.sort();
            seen.sort();
            assert_eq!(seen, expected, "{path}");
        }
    }
}
