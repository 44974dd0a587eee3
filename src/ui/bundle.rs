//! Joins the modules and the styles of the page to few files.
//!
//! A browser waits longer for a hundred small files than for their bytes, and one large file
//! compresses to two thirds of what small ones take. Each module keeps its own scope: it becomes a
//! function, and its imports look up what other functions returned. `lib/modules.js` runs them.
//!
//! The conversion goes by lines, so modules are written as its tests check: an import is
//! `import { a, b as c } from './d.js';` before everything else, an export stands before a
//! declaration that never changes, and no two modules import each other.

use std::collections::{BTreeSet, VecDeque};

use super::sources::Texts;

/// The script that starts the page. It has the modules of [`STARTS`].
const APP: &str = "app.js";
/// The modules of all other pages. `lib/modules.js` loads it by this name.
pub(super) const PAGES: &str = "pages.js";
/// The importer's worker.
const WORKER: &str = "worker.js";
const STYLES: &str = "app.css";
/// The modules that start the page: the page itself, and the pages that people see first.
const STARTS: [&str; 5] =
    [APP, "pages/home.js", "pages/join.js", "pages/phone.js", "pages/sign-in.js"];
const WORKER_START: &str = "import/csv.js";
const RUNTIME: &str = "lib/modules.js";
/// Modules without code.
const TYPES: &str = "lib/types.js";
/// The styles that others overrule, in their order.
const FIRST_STYLES: [&str; 4] = ["tokens", "base", "frame", "parts"];

/// Joins all modules and styles of `files`; other files stay as they are.
pub(super) fn join(files: &Texts) -> Texts {
    let first = first_modules(files);
    let worker = reachable_modules([WORKER_START], files);
    let is_other =
        |path: &&str| path.ends_with(".js") && !first.contains(*path) && !is_special(path);
    let others: BTreeSet<&str> = files.keys().map(String::as_str).filter(is_other).collect();
    let is_joined = |path: &str| path.ends_with(".js") || path.ends_with(".css");
    let mut joined: Texts = files
        .iter()
        .filter(|(path, _)| !is_joined(path))
        .map(|(a, b)| (a.clone(), b.clone()))
        .collect();
    joined.insert(APP.to_owned(), script(&first, files, APP));
    joined.insert(WORKER.to_owned(), script(&worker, files, WORKER_START));
    let others = definitions(&others, files);
    joined.insert(PAGES.to_owned(), format!("import {{ define }} from './{APP}';\n{others}"));
    joined.insert(STYLES.to_owned(), styles(files));
    joined
}

/// Returns the modules of the script that starts the page. [`PAGES`] has the others.
pub(super) fn first_modules(files: &Texts) -> BTreeSet<&str> {
    reachable_modules(STARTS, files)
}

fn is_special(path: &str) -> bool {
    [RUNTIME, TYPES, WORKER_START].contains(&path)
}

/// Returns a script that has these modules, and runs one of them.
fn script(modules: &BTreeSet<&str>, files: &Texts, start: &str) -> String {
    let runtime = files.get(RUNTIME).map(|it| without_comments(it)).unwrap_or_default();
    let modules = definitions(modules, files);
    format!("{runtime}{modules}use('{start}');\n")
}

fn definitions(modules: &BTreeSet<&str>, files: &Texts) -> String {
    let known = modules.iter().filter_map(|path| Some((path, files.get(*path)?)));
    let all: String = known.map(|(path, text)| definition(path, text)).collect();
    format!("define({{\n{all}}});\n")
}

/// Converts a module to an entry of the table of modules.
fn definition(path: &str, module: &str) -> String {
    let (code, exported) = converted(path, module);
    let exported = exported.join(", ");
    format!("'{path}': (__use, __load, __here) => {{\n{code}return {{ {exported} }};\n}},\n")
}

/// Converts a module to the body of a function. Returns the names that it exports, too.
fn converted(path: &str, module: &str) -> (String, Vec<String>) {
    let module =
        without_comments(module).replace("import.meta.url", "__here").replace("import(", "__load(");
    let (mut code, mut exported) = (String::new(), Vec::new());
    let (mut lines, mut is_head) = (module.lines(), true);
    while let Some(line) = lines.next() {
        // Below the head, such a line is in a text.
        is_head &= line.is_empty() || line.starts_with("import {");
        if is_head && !line.is_empty() {
            let mut statement = line.to_owned();
            while !statement.ends_with(';') {
                let Some(next) = lines.next() else { break };
                statement.push_str(next);
                code.push('\n');
            }
            code.push_str(&import_of(path, &statement));
        } else if let Some(declaration) = line.strip_prefix("export ") {
            let (name, declaration) = match declaration.strip_prefix("default ") {
                Some(rest) => (format!("default: {}", declared_name(rest)), rest),
                None => (declared_name(declaration).to_owned(), declaration),
            };
            exported.push(name);
            code.push_str(declaration);
        } else {
            code.push_str(line);
        }
        code.push('\n');
    }
    (code, exported)
}

/// Converts `import { a, b as c } from './d.js';` to a look-up.
fn import_of(path: &str, statement: &str) -> String {
    let named = statement.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let (names, from) = named.unwrap_or_default();
    let from = resolve_path(path, from.split('\'').nth(1).unwrap_or_default());
    format!("const {{{}}} = __use('{from}');", names.replace(" as ", ": "))
}

/// Returns the name that a declaration such as `async function name(` declares.
fn declared_name(declaration: &str) -> &str {
    let words = declaration.split(|it: char| !it.is_alphanumeric() && it != '_' && it != '$');
    let keywords = ["async", "function", "const", "class", ""];
    words.into_iter().find(|word| !keywords.contains(word)).unwrap_or_default()
}

fn styles(files: &Texts) -> String {
    let first = FIRST_STYLES.map(|name| format!("styles/{name}.css"));
    let others = files.keys().filter(|path| path.ends_with(".css") && !first.contains(path));
    first.iter().chain(others).filter_map(|path| files.get(path).map(String::as_str)).collect()
}

/// Returns these modules and all that they import.
fn reachable_modules<'a>(
    first: impl IntoIterator<Item = &'a str>,
    files: &'a Texts,
) -> BTreeSet<&'a str> {
    let mut waiting: VecDeque<String> = first.into_iter().map(str::to_owned).collect();
    let mut found = BTreeSet::new();
    while let Some(path) = waiting.pop_front() {
        let Some((path, text)) = files.get_key_value(&path) else { continue };
        if found.insert(path.as_str()) {
            waiting.extend(imported_modules(path, text));
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

/// Removes the comments at the start of a line, `/** … */` and `// …`, from a module.
///
/// They are an eighth of its bytes. Its lines stay, so an error's position leads to the line of the
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
mod tests;
