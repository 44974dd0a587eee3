//! Resolves paths: through imports and re-exports to what they name and the file that defines it.

use super::facts::Name;
use super::repository::{Package, Source, made_of};

/// Longest chain of imports that is followed; a longer one is a circle of globs.
const HOPS_MAX: usize = 8;

/// Where a path leads inside its package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// An index into the package's sources.
    pub source: usize,
    /// The item's name; none for the module itself.
    pub item: Option<String>,
}

#[derive(Debug)]
enum Found {
    /// An item that is known to be defined there.
    Inside(Target),
    /// Something of another crate, by its full path.
    Outside(Vec<String>),
    /// A name of which only the module is known: a method, or what a macro makes.
    Unknown(Target),
}

impl Package {
    /// The full path of a name: from `crate` or `main` for what is in the package, otherwise from
    /// the name of the crate that it is in.
    pub fn absolute(&self, source: &Source, name: &Name) -> Vec<String> {
        self.expand_name(source, name, HOPS_MAX)
    }

    /// The same for a path that is written in this scope.
    pub fn absolute_path(&self, source: &Source, scope: &[String], path: &[String]) -> Vec<String> {
        self.expand(source, scope, path, None, HOPS_MAX)
    }

    /// Where a full path leads; none for what is outside of the package.
    pub fn definition(&self, path: &[String]) -> Option<Target> {
        match self.follow(path, HOPS_MAX)? {
            Found::Inside(target) | Found::Unknown(target) => Some(target),
            Found::Outside(_) => None,
        }
    }

    /// The path in another crate of what a full path leads to by way of a re-export.
    pub fn outside(&self, path: &[String]) -> Option<Vec<String>> {
        match self.follow(path, HOPS_MAX)? {
            Found::Outside(path) => Some(path),
            Found::Inside(_) | Found::Unknown(_) => None,
        }
    }

    fn expand_name(&self, source: &Source, name: &Name, hops: usize) -> Vec<String> {
        let own_local = name.import.as_ref().map(|import| import.local.as_str());
        if name.external {
            return name.segments.clone();
        }
        self.expand(source, &name.scope, &name.segments, own_local, hops)
    }

    /// `own_local` is the name under which the path itself is imported: it cannot mean itself.
    fn expand(
        &self,
        source: &Source,
        scope: &[String],
        path: &[String],
        own_local: Option<&str>,
        hops: usize,
    ) -> Vec<String> {
        let mut base = source.module.clone().unwrap_or_else(|| vec!["file".to_owned()]);
        base.extend(scope.iter().cloned());
        let Some((first, rest)) = path.split_first().filter(|_| hops > 0) else {
            return path.to_vec();
        };
        match first.as_str() {
            "crate" => return [&base[..1], rest].concat(),
            "self" => return [&base, rest].concat(),
            "super" => {
                let ups = path.iter().take_while(|segment| *segment == "super").count();
                base.truncate(base.len().saturating_sub(ups).max(1));
                return [&base, &path[ups..]].concat();
            }
            own if own == self.name.replace('-', "_") => {
                return [&["crate".to_owned()], rest].concat();
            }
            _ => {}
        }
        // An import may be of the name that it gives: `use rand;` or `use a::{rand}`.
        if own_local != Some(first)
            && let Some(import) = source.facts.imports_of(scope, first).next()
        {
            return [&self.expand_name(source, import, hops - 1), rest].concat();
        }
        if source.facts.has(scope, first) {
            return [&base, path].concat();
        }
        let from_glob = source.facts.imports_of(scope, "*").find_map(|glob| {
            let whole = self.expand_name(source, glob, hops - 1);
            let item = [&whole, &path[..1]].concat();
            let is_known = is_inside(&item)
                && matches!(
                    self.follow(&item, hops - 1),
                    Some(Found::Inside(_) | Found::Outside(_))
                );
            is_known.then(|| [&whole, path].concat())
        });
        from_glob.unwrap_or_else(|| path.to_vec())
    }

    fn follow(&self, path: &[String], hops: usize) -> Option<Found> {
        if !is_inside(path) {
            return Some(Found::Outside(path.to_vec()));
        }
        let is_module = |length: &usize| self.modules.contains_key(&path[..*length]);
        let length = (1..=path.len()).rev().find(is_module)?;
        let (index, rest) = (self.modules[&path[..length]], &path[length..]);
        let facts = &self.sources[index].facts;
        let is_inline = |depth: &usize| {
            let (name, scope) = (&rest[*depth], &rest[..*depth]);
            facts.modules.iter().any(|it| it.inline && it.name == *name && it.scope == scope)
        };
        let depth = (0..rest.len()).take_while(is_inline).count();
        let (scope, rest) = rest.split_at(depth);
        let here = |item: Option<&String>| Target { source: index, item: item.cloned() };
        let Some((item, after)) = rest.split_first() else {
            return Some(Found::Inside(here(None)));
        };
        if facts.defines(scope, item) {
            return Some(Found::Inside(here(Some(item))));
        }
        let found = self.import_of(index, scope, item, after, hops);
        found.or_else(|| Some(Found::Unknown(here(Some(item)))))
    }

    /// What a file's imports make of an item that it does not define.
    fn import_of(
        &self,
        index: usize,
        scope: &[String],
        item: &str,
        after: &[String],
        hops: usize,
    ) -> Option<Found> {
        let source = &self.sources[index];
        for local in [item, "*"].into_iter().filter(|_| hops > 0) {
            for import in source.facts.imports_of(scope, local) {
                let mut whole = self.expand_name(source, import, hops - 1);
                whole.extend((local == "*").then(|| item.to_owned()));
                whole.extend(after.iter().cloned());
                match self.follow(&whole, hops - 1) {
                    Some(Found::Outside(_)) if local == "*" => {}
                    Some(found @ (Found::Inside(_) | Found::Outside(_))) => return Some(found),
                    Some(Found::Unknown(_)) | None => {}
                }
            }
        }
        None
    }
}

/// Whether a full path leads into the package itself.
fn is_inside(path: &[String]) -> bool {
    path.first().is_some_and(|first| first == "crate" || first == "main")
}

#[test]
fn a_path_leads_through_imports_to_the_file_that_defines_the_item() {
    let repository = made_of(&[
        ("src/lib.rs", "mod a; mod b; pub use a::Deep as Renamed;"),
        ("src/a/mod.rs", "mod deep; mod globbed; pub use deep::Deep; pub use globbed::*;"),
        ("src/a/deep.rs", "pub struct Deep;"),
        ("src/a/globbed.rs", "pub struct Globbed; pub mod inner { pub struct Inner; }"),
        ("src/b.rs", ""),
    ]);
    let package = &repository.packages[0];
    let file = |path: &str| {
        let segments: Vec<_> = path.split("::").map(str::to_owned).collect();
        let target = package.definition(&segments)?;
        Some(package.inner_path(&package.sources[target.source]))
    };
    assert_eq!(file("crate::Renamed"), Some("a/deep.rs"));
    assert_eq!(file("crate::a::Deep::new"), Some("a/deep.rs"));
    assert_eq!(file("crate::a::Globbed"), Some("a/globbed.rs"));
    assert_eq!(file("crate::a::inner::Inner"), Some("a/globbed.rs"));
    assert_eq!(file("crate::b"), Some("b.rs"));
    assert_eq!(file("crate::a::Unknown"), Some("a/mod.rs"));
    assert_eq!(file("std::fs"), None);
}
