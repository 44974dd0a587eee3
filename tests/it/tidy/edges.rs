//! Which file of a crate imports which.
//!
//! A file imports another when its code, tests left out, names an item that is defined there. A
//! re-export is looked through: who names `contacts::Record` imports `contacts/record.rs`,
//! whichever `mod.rs` passes it on, and a `mod.rs` that only declares and re-exports imports
//! nothing. Naming a module without anything in it is no import either; what is named behind it is
//! one.

use std::collections::BTreeMap;

use super::repository::{Package, Source};

/// An import of one file by another, both as indexes into the package's sources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    pub line: usize,
    pub path: String,
}

impl Package {
    /// The imports between files, the first of each pair.
    pub fn edges(&self) -> Vec<Edge> {
        let mut edges = BTreeMap::new();
        for (from, source) in self.sources.iter().enumerate() {
            if source.module.is_none() || source.test {
                continue;
            }
            for edge in self.edges_of(from, source) {
                edges.entry((edge.from, edge.to)).or_insert(edge);
            }
        }
        edges.into_values().collect()
    }

    fn edges_of<'a>(&'a self, from: usize, source: &'a Source) -> impl Iterator<Item = Edge> + 'a {
        source.facts.shipped_names().filter_map(move |name| {
            if name.import.as_ref().is_some_and(|import| import.is_reexport) {
                return None;
            }
            let path = self.absolute(source, name);
            let target = self.definition(&path)?;
            let is_glob = name.import.as_ref().is_some_and(|import| import.local == "*");
            let is_import = target.source != from
                && (target.item.is_some() || is_glob)
                && !self.sources[target.source].test;
            is_import.then(|| Edge {
                from,
                to: target.source,
                line: name.line,
                path: path.join("::"),
            })
        })
    }

    /// How an edge is reported in a failure.
    pub fn describe(&self, edge: &Edge) -> String {
        let (from, to) = (&self.sources[edge.from], &self.sources[edge.to]);
        format!("{}:{} imports {} of {}", from.path, edge.line, edge.path, to.path)
    }
}
