//! Imports run one way: no circle of files across folders, and small ones inside of a folder.
//!
//! A circle is a set of files of which each imports each other, directly or not (a strongly
//! connected component; `edges` says what an import is). Two or three files of one folder may form
//! one: a type and the parts of its `impl`.
//!
//! A module's own file assembles its children and gives them what they share. That alone is no
//! circle: of a circle that one module's file and files below it make up, only what remains without
//! the imports from that file down counts, and so on inside of the rest. A circle that leaves the
//! module keeps them all, so going through a `mod.rs` hides nothing from other modules. The folder
//! of a file with child modules, `mod.rs` or `name.rs` beside `name/`, is the one of its children.

use super::edges::Edge;
use super::ratchet::CIRCLES;
use super::repository::{Package, Repository, made_of, module_folder};

/// Most files of one folder that may import each other in a circle.
const CIRCLE_FILES_MAX: usize = 3;

/// The sets of two or more nodes that reach each other.
fn components(nodes: usize, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut next = vec![Vec::new(); nodes];
    for edge in edges {
        next[edge.from].push(edge.to);
    }
    let mut search = Search {
        next,
        order: vec![None; nodes],
        low: vec![0; nodes],
        on_stack: vec![false; nodes],
        stack: Vec::new(),
        visited: 0,
        found: Vec::new(),
    };
    for node in 0..nodes {
        if search.order[node].is_none() {
            search.visit(node);
        }
    }
    search.found.retain(|component| component.len() > 1);
    search.found
}

/// Tarjan's search for strongly connected components.
struct Search {
    next: Vec<Vec<usize>>,
    order: Vec<Option<usize>>,
    /// The earliest node that can be reached and is on the stack.
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    visited: usize,
    found: Vec<Vec<usize>>,
}

impl Search {
    fn visit(&mut self, node: usize) -> usize {
        let order = self.visited;
        self.visited += 1;
        self.order[node] = Some(order);
        self.low[node] = order;
        self.stack.push(node);
        self.on_stack[node] = true;
        for other in self.next[node].clone() {
            let low = match self.order[other] {
                None => self.visit(other),
                Some(order) if self.on_stack[other] => order,
                Some(_) => continue,
            };
            self.low[node] = self.low[node].min(low);
        }
        if self.low[node] == order {
            let start = self.stack.iter().rposition(|on_stack| *on_stack == node).unwrap();
            let component = self.stack.split_off(start);
            for member in &component {
                self.on_stack[*member] = false;
            }
            self.found.push(component);
        }
        self.low[node]
    }
}

/// The folder that a file belongs to: the one of its child modules, where it has any.
fn home(package: &Package, index: usize) -> String {
    let path = &package.sources[index].path;
    let children = format!("{}/", module_folder(path));
    if package.sources.iter().any(|source| source.path.starts_with(&children)) {
        return children;
    }
    path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned() + "/"
}

/// Whether a file is the module, or one of the modules around it, that another is in.
fn holds(package: &Package, outer: usize, inner: usize) -> bool {
    let path = |index: usize| package.sources[index].module.as_deref().unwrap_or_default();
    outer != inner && path(inner).starts_with(path(outer))
}

/// The components that are left without the imports from a module's own file down, each taken out
/// where the file holds all others of its component.
fn without_assembly(package: &Package, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut done = Vec::new();
    let mut open = vec![(components(package.sources.len(), edges), edges.to_vec())];
    while let Some((found, edges)) = open.pop() {
        for component in found {
            let holder = component.iter().copied().find(|outer| {
                component.iter().all(|it| it == outer || holds(package, *outer, *it))
            });
            let Some(holder) = holder else {
                done.push(component);
                continue;
            };
            let is_inside = |edge: &&Edge| {
                component.contains(&edge.from)
                    && component.contains(&edge.to)
                    && edge.from != holder
            };
            let rest: Vec<_> = edges.iter().filter(is_inside).cloned().collect();
            open.push((components(package.sources.len(), &rest), rest));
        }
    }
    done
}

/// The circles that break the rule, largest first.
fn circles(package: &Package, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut found = without_assembly(package, edges);
    found.retain(|circle| {
        let first = home(package, circle[0]);
        circle.len() > CIRCLE_FILES_MAX || circle.iter().any(|it| home(package, *it) != first)
    });
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

fn describe(package: &Package, circle: &[usize], edges: &[Edge]) -> String {
    let inside = |edge: &&Edge| circle.contains(&edge.from) && circle.contains(&edge.to);
    let described: Vec<_> =
        edges.iter().filter(inside).map(|edge| package.describe(edge)).collect();
    format!("a circle of {} files:\n    {}", circle.len(), described.join("\n    "))
}

#[test]
fn imports_run_one_way() {
    let mut failures = Vec::new();
    for package in &Repository::this().packages {
        let edges = package.edges();
        let circles = circles(package, &edges);
        let now = (circles.len(), circles.first().map_or(0, Vec::len));
        let row = CIRCLES.iter().find(|(name, ..)| *name == package.name);
        let allowed = row.map_or((0, 0), |(_, count, largest)| (*count, *largest));
        println!("{}: {} circles, the largest of {} files", package.name, now.0, now.1);
        if now.0 > allowed.0 || now.1 > allowed.1 {
            let described = circles.iter().map(|circle| describe(package, circle, &edges));
            let described: Vec<_> = described.collect();
            failures.push(format!(
                "{}: {now:?} circles and files of the largest, {allowed:?} are allowed\n  {}",
                package.name,
                described.join("\n  ")
            ));
        } else if now != allowed {
            failures.push(format!(
                "{}: {now:?} circles and files of the largest: lower the ratchet from {allowed:?}",
                package.name
            ));
        }
    }
    let failures = failures.join("\n");
    assert!(
        failures.is_empty(),
        "No circle of files across folders, none of more than {CIRCLE_FILES_MAX} in one.\n{failures}"
    );
}

/// The circles of a library of these files, each as the inner paths of its files.
fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let repository = made_of(files);
    let package = &repository.packages[0];
    let mut all = circles(package, &package.edges());
    all.iter_mut().for_each(|circle| circle.sort_unstable());
    let path = |index: usize| package.inner_path(&package.sources[index]).to_owned();
    all.into_iter().map(|circle| circle.into_iter().map(path).collect()).collect()
}

#[test]
fn a_circle_across_folders_is_found_through_re_exports_and_inline_paths() {
    let circle = found(&[
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a/mod.rs", "mod x; mod y; pub use x::X; pub use y::*;"),
        ("src/a/x.rs", "pub struct X(crate::b::B);"),
        ("src/a/y.rs", "pub struct Y;"),
        ("src/b.rs", "use crate::a; pub struct B; fn f(_: a::X, _: a::Y) {}"),
    ]);
    assert_eq!(circle, [["a/x.rs", "b.rs"]]);
}

#[test]
fn tests_and_modules_that_only_re_export_are_in_no_circle() {
    let none = found(&[
        ("src/lib.rs", "mod a; mod b; pub use a::X;"),
        ("src/a/mod.rs", "mod x; pub use x::X;"),
        ("src/a/x.rs", "pub struct X; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("src/b.rs", "use crate::{a, X}; pub struct B; fn f(_: a::X, _: X) {}"),
    ]);
    assert_eq!(none, Vec::<Vec<String>>::new());
}

#[test]
fn a_crate_of_the_name_of_a_module_is_no_import() {
    let none = found(&[
        ("src/lib.rs", "mod http; mod b;"),
        ("src/http.rs", "pub struct H(crate::b::B);"),
        ("src/b.rs", "use ::http::HeaderValue; pub struct B(::http::H, HeaderValue);"),
    ]);
    assert_eq!(none, Vec::<Vec<String>>::new());
    let crossed = found(&[
        ("src/lib.rs", "mod a;"),
        ("src/a/mod.rs", "mod http; mod b;"),
        ("src/a/http.rs", "pub struct H(crate::a::b::sub::B);"),
        ("src/a/b/mod.rs", "pub mod sub; use super::http::H;"),
        ("src/a/b/sub.rs", "pub struct B(super::super::http::H, ::http::H);"),
    ]);
    assert_eq!(crossed, [["a/b/sub.rs", "a/http.rs"]]);
}

#[test]
fn a_folder_may_have_a_circle_of_three_files_but_not_of_four() {
    let mut files = vec![
        ("src/lib.rs", "mod a;"),
        ("src/a.rs", "mod w; mod x; mod y; mod z;"),
        ("src/a/w.rs", "pub struct W;"),
        ("src/a/x.rs", "pub struct X(super::y::Y);"),
        ("src/a/y.rs", "pub struct Y(super::z::Z);"),
        ("src/a/z.rs", "pub struct Z(super::x::X, super::w::W);"),
    ];
    assert_eq!(found(&files), Vec::<Vec<String>>::new());
    files[2].1 = "pub struct W(super::x::X);";
    assert_eq!(found(&files), [["a/w.rs", "a/x.rs", "a/y.rs", "a/z.rs"]]);
}

#[test]
fn a_module_and_its_children_are_one_until_others_take_part() {
    let mut files = vec![
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a/mod.rs", "mod x; mod y; pub struct A; fn f() { x::f(); y::f(); }"),
        ("src/a/x.rs", "use super::A; pub fn f() {}"),
        ("src/a/y.rs", "use super::A; pub fn f() {}"),
        ("src/b.rs", "use crate::a::A; pub struct B;"),
    ];
    assert_eq!(found(&files), Vec::<Vec<String>>::new());
    files[3].1 = "use super::A; pub fn f() -> crate::b::B {}";
    assert_eq!(found(&files), [["a/mod.rs", "a/x.rs", "a/y.rs", "b.rs"]]);
}
