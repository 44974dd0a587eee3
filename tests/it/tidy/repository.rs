//! The workspace as the checks see it: its packages, found from the root manifest, and their files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use toml::{Table, Value};

use super::facts::Facts;

/// Where a package's Rust files are.
const FOLDERS: [&str; 4] = ["src", "tests", "benches", "examples"];

/// The packages of the workspace, the root first.
#[derive(Debug)]
pub struct Repository {
    pub packages: Vec<Package>,
    pub manifest: Table,
    /// ARCHITECTURE.md, where there is one.
    pub architecture: Option<String>,
}

/// A member of the workspace.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    /// Its folder from the root, with a slash behind it; empty for the root itself.
    pub folder: String,
    pub manifest: Table,
    pub sources: Vec<Source>,
    /// The source that each module path leads to, from `crate` or, for a binary, `main`.
    pub modules: BTreeMap<Vec<String>, usize>,
}

/// A Rust file.
#[derive(Debug)]
pub struct Source {
    /// From the root of the repository.
    pub path: String,
    pub text: String,
    pub facts: Facts,
    /// The path of the module that it is, when it is part of a library or binary.
    pub module: Option<Vec<String>>,
    /// It is compiled for tests only.
    pub test: bool,
}

impl Repository {
    /// The one that this test stands in, read once.
    pub fn this() -> &'static Self {
        static THIS: OnceLock<Repository> = OnceLock::new();
        THIS.get_or_init(|| {
            let mut files = BTreeMap::new();
            collect(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut files);
            Self::of(&files)
        })
    }

    /// One of these files, by their paths from its root.
    pub fn of(files: &BTreeMap<String, String>) -> Self {
        let table = |path: &str| -> Table {
            let text = files.get(path).unwrap_or_else(|| panic!("{path} is missing"));
            text.parse().unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let manifest = table("Cargo.toml");
        let members = manifest["workspace"].get("members").and_then(Value::as_array);
        let members = members.into_iter().flatten().map(|member| member.as_str().unwrap());
        let folders = members.map(|member| format!("{member}/"));
        let mut packages = Vec::new();
        for folder in std::iter::once(String::new()).chain(folders) {
            let manifest = table(&format!("{folder}Cargo.toml"));
            packages.push(Package::new(folder, manifest, files));
        }
        Self { packages, manifest, architecture: files.get("ARCHITECTURE.md").cloned() }
    }

    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.packages.iter().flat_map(|package| &package.sources)
    }

    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

impl Package {
    fn new(folder: String, manifest: Table, files: &BTreeMap<String, String>) -> Self {
        let is_mine = |path: &&String| {
            let inner = path.strip_prefix(&folder).filter(|path| path.ends_with(".rs"));
            let first = inner.and_then(|path| path.split_once('/')).map(|(first, _)| first);
            first.is_some_and(|first| FOLDERS.contains(&first))
        };
        let mine: Vec<&String> = files.keys().filter(is_mine).collect();
        let sources = parse(&mine, files);
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        let mut package = Self { name, folder, manifest, sources, modules: BTreeMap::new() };
        for (root, file) in [("crate", "src/lib.rs"), ("main", "src/main.rs")] {
            package.find_modules(
                vec![root.to_owned()],
                &format!("{}{file}", package.folder),
                false,
            );
        }
        package
    }

    /// Follows the declarations of modules from a file.
    fn find_modules(&mut self, module: Vec<String>, path: &str, test: bool) {
        let Some(index) = self.sources.iter().position(|source| source.path == path) else {
            return;
        };
        let source = &mut self.sources[index];
        source.module.get_or_insert_with(|| module.clone());
        source.test = source.facts.test || test;
        let test = source.test;
        let folder = module_folder(path);
        let mut children = Vec::new();
        for child in source.facts.modules.iter().filter(|child| !child.inline) {
            let mut inner = module.clone();
            inner.extend(child.scope.iter().chain([&child.name]).cloned());
            let scope = child.scope.iter().map(|name| format!("/{name}"));
            let base = folder.clone() + &scope.collect::<String>();
            let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let paths = match &child.path {
                Some(path) => vec![format!("{beside}/{path}")],
                None => vec![
                    format!("{base}/{}.rs", child.name),
                    format!("{base}/{}/mod.rs", child.name),
                ],
            };
            children.push((inner, paths, test || child.test));
        }
        self.modules.insert(module, index);
        for (module, paths, test) in children {
            for path in paths {
                self.find_modules(module.clone(), &path, test);
            }
        }
    }

    /// The files that a build without tests has.
    pub fn shipped(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| source.module.is_some() && !source.test)
    }

    /// A file's path from the package's folder `src`.
    pub fn inner_path<'a>(&self, source: &'a Source) -> &'a str {
        let inner = source.path.strip_prefix(&self.folder).unwrap_or(&source.path);
        inner.strip_prefix("src/").unwrap_or(inner)
    }
}

/// The folder that holds the child modules of a file.
pub fn module_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

/// Parses files, on two threads: a debug build of the parser takes its time.
fn parse(paths: &[&String], files: &BTreeMap<String, String>) -> Vec<Source> {
    let read = |path: &&String| {
        let text = files[*path].clone();
        let facts = Facts::read(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        Source { path: (*path).clone(), text, facts, module: None, test: false }
    };
    let (first, second) = paths.split_at(paths.len() / 2);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| second.iter().map(read).collect::<Vec<_>>());
        let mut all: Vec<_> = first.iter().map(read).collect();
        all.extend(second.join().unwrap());
        all
    })
}

/// Reads the files that matter below a folder.
fn collect(root: &Path, folder: &str, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}{name}");
        if entry.path().is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(root, &format!("{path}/"), files);
            }
        } else if name.ends_with(".rs") || name == "Cargo.toml" || path == "ARCHITECTURE.md" {
            files.insert(path, std::fs::read_to_string(entry.path()).unwrap());
        }
    }
}

/// A repository that a test makes up: the package `postrider` with these files, and a member for
/// each other manifest among them.
pub fn made_of(files: &[(&str, &str)]) -> Repository {
    let mut all: BTreeMap<String, String> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let folders = files.iter().filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
    let members: Vec<_> = folders.map(|folder| format!("{folder:?}")).collect();
    let root = all
        .entry("Cargo.toml".to_owned())
        .or_insert_with(|| "[package]\nname = \"postrider\"\n[workspace]\n".to_owned());
    *root = root
        .replace("[workspace]\n", &format!("[workspace]\nmembers = [{}]\n", members.join(", ")));
    Repository::of(&all)
}

/// Fails with what breaks a rule, each thing on a line of its own.
#[track_caller]
pub fn assert_kept(rule: &str, violations: &[String]) {
    let list = violations.join("\n  ");
    assert!(violations.is_empty(), "{rule}\n  {list}\n({} in all)", violations.len());
}

/// The same where so many break the rule today; fewer must be entered in the ratchet.
#[track_caller]
pub fn assert_ratchet(rule: &str, (name, allowed): (&str, usize), violations: &[String]) {
    let count = violations.len();
    if count > allowed {
        assert_kept(&format!("{rule} {name} allows {allowed} exceptions."), violations);
    }
    assert_eq!(count, allowed, "{rule} {count} exceptions are left: lower {name} to {count}");
}

#[test]
fn every_source_file_of_a_package_is_reached_from_its_root() {
    let is_lost = |source: &&Source| source.module.is_none();
    let mut lost = Vec::new();
    for package in &Repository::this().packages {
        let src = format!("{}src/", package.folder);
        let inside = package.sources.iter().filter(|source| source.path.starts_with(&src));
        lost.extend(inside.filter(is_lost).map(|source| source.path.clone()));
    }
    assert_kept("A file below src/ is a module of its crate.", &lost);
    let names: BTreeSet<_> =
        Repository::this().packages.iter().map(|package| package.name.as_str()).collect();
    assert!(names.contains("postrider") && names.contains("postrider-actors"), "{names:?}");
}

#[test]
fn modules_are_found_and_tests_distinguished_from_what_is_shipped() {
    let repository = made_of(&[
        ("src/lib.rs", "mod a;\n#[cfg(test)]\nmod tests;\nmod inner { mod deep; }"),
        ("src/a.rs", "mod b;"),
        ("src/a/b.rs", ""),
        ("src/inner/deep/mod.rs", ""),
        ("src/tests.rs", "mod more;"),
        ("src/tests/more.rs", ""),
    ]);
    let package = &repository.packages[0];
    let shipped: Vec<_> = package.shipped().map(|source| package.inner_path(source)).collect();
    assert_eq!(shipped, ["a.rs", "a/b.rs", "inner/deep/mod.rs", "lib.rs"]);
    let deep = ["crate", "inner", "deep"].map(str::to_owned);
    assert!(package.modules.contains_key(deep.as_slice()));
    assert!(package.sources.iter().all(|source| source.module.is_some()));
}
