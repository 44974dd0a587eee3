//! What the checks need to know of one file, read from its syntax tree.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, Path, UseTree, Visibility};

use super::conditions::is_test_only;

/// The names of nested inline modules, outermost first. A file's own level is the empty one.
pub type Scope = Vec<String>;

/// A path that a file writes, with `use a::{b, c as d}` taken apart.
#[derive(Debug, Clone)]
pub struct Name {
    pub segments: Vec<String>,
    pub line: usize,
    pub scope: Scope,
    /// It is compiled for tests only.
    pub test: bool,
    /// It begins with `::`, so its first segment is a crate.
    pub external: bool,
    pub import: Option<Import>,
}

/// What a `use` adds to a path.
#[derive(Debug, Clone)]
pub struct Import {
    /// The name that it gets here; `*` imports all names of a module.
    pub local: String,
    /// It has a visibility, so that others may find the item here.
    pub is_reexport: bool,
}

/// A declared module.
#[derive(Debug)]
pub struct Module {
    pub name: String,
    pub scope: Scope,
    pub test: bool,
    pub inline: bool,
    /// The value of its attribute `path`.
    pub path: Option<String>,
}

/// A public type, trait or alias.
#[derive(Debug)]
pub struct PublicType {
    pub name: String,
    pub line: usize,
}

/// An `impl` block, by the path of its type. A conversion, `impl From<A> for B`, is as much about
/// `A` and is left out.
#[derive(Debug)]
pub struct Implementation {
    pub segments: Vec<String>,
    pub line: usize,
    pub scope: Scope,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    pub line: usize,
    pub lines: usize,
}

/// Everything that the checks ask of a file.
#[derive(Debug, Default)]
pub struct Facts {
    pub names: Vec<Name>,
    /// Which of the names are imports, outside of tests.
    pub imports: Vec<usize>,
    pub functions: Vec<Function>,
    pub modules: Vec<Module>,
    /// Outside of tests.
    pub public_types: Vec<PublicType>,
    /// Outside of tests.
    pub implementations: Vec<Implementation>,
    /// The items that each scope defines.
    pub items: BTreeMap<Scope, BTreeSet<String>>,
    /// Macros called and attributes set, with their lines: `todo!`, `#[ignore]`.
    pub marks: Vec<(String, usize)>,
    /// The whole file is compiled for tests only.
    pub test: bool,
}

impl Facts {
    /// Reads a file's text, which must be valid Rust.
    pub fn read(text: &str) -> syn::Result<Self> {
        let file = syn::parse_file(text)?;
        let test = is_test_only(&file.attrs);
        let facts = Self { test, ..Self::default() };
        let mut reader = Reader { facts, scope: Vec::new(), tests: usize::from(test), bodies: 0 };
        reader.visit_file(&file);
        Ok(reader.facts)
    }

    /// The names outside of tests.
    pub fn shipped_names(&self) -> impl Iterator<Item = &Name> {
        self.names.iter().filter(|name| !name.test)
    }

    /// The imports of a scope under this name, outside of tests.
    pub fn imports_of<'a>(
        &'a self,
        scope: &'a [String],
        local: &'a str,
    ) -> impl Iterator<Item = &'a Name> {
        let imports = self.imports.iter().map(|index| &self.names[*index]);
        imports.filter(move |name| {
            let import = name.import.as_ref();
            import.is_some_and(|import| import.local == local) && name.scope == scope
        })
    }

    fn declares(&self, scope: &[String], name: &str) -> bool {
        let mut modules = self.modules.iter();
        modules.any(|module| module.name == name && module.scope == scope)
    }

    pub fn defines(&self, scope: &[String], name: &str) -> bool {
        self.items.get(scope).is_some_and(|items| items.contains(name))
    }

    /// Whether a scope has an item or a child module of this name.
    pub fn has(&self, scope: &[String], name: &str) -> bool {
        self.declares(scope, name) || self.defines(scope, name)
    }
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item defines in its module, and its visibility if it is a type.
fn definition(item: &Item) -> Option<(&syn::Ident, Option<&Visibility>)> {
    Some(match item {
        Item::Const(item) => (&item.ident, None),
        Item::Enum(item) => (&item.ident, Some(&item.vis)),
        Item::Fn(item) => (&item.sig.ident, None),
        Item::Macro(item) => (item.ident.as_ref()?, None),
        Item::Static(item) => (&item.ident, None),
        Item::Struct(item) => (&item.ident, Some(&item.vis)),
        Item::Trait(item) => (&item.ident, Some(&item.vis)),
        Item::TraitAlias(item) => (&item.ident, Some(&item.vis)),
        Item::Type(item) => (&item.ident, Some(&item.vis)),
        Item::Union(item) => (&item.ident, Some(&item.vis)),
        _ => return None,
    })
}

fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Walks a syntax tree and notes what it finds.
pub struct Reader {
    pub facts: Facts,
    scope: Scope,
    /// How many of the items around are for tests only.
    tests: usize,
    /// How many function bodies are around.
    bodies: usize,
}

impl Reader {
    pub fn name(&mut self, segments: Vec<String>, line: usize, import: Option<Import>) {
        let (scope, test) = (self.scope.clone(), self.tests > 0);
        if import.is_some() && !test {
            self.facts.imports.push(self.facts.names.len());
        }
        let name = Name { segments, line, scope, test, external: false, import };
        self.facts.names.push(name);
    }

    /// Visits something that these attributes may keep for tests.
    fn within(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let test = usize::from(is_test_only(attributes));
        self.tests += test;
        visit(self);
        self.tests -= test;
    }

    fn define(&mut self, item: &Item) {
        let Some((name, visibility)) = definition(item).filter(|_| self.bodies == 0) else {
            return;
        };
        self.facts.items.entry(self.scope.clone()).or_default().insert(name.to_string());
        if self.tests == 0 && matches!(visibility, Some(Visibility::Public(_))) {
            let line = name.span().start().line;
            self.facts.public_types.push(PublicType { name: name.to_string(), line });
        }
    }

    fn import(&mut self, tree: &UseTree, before: &[String], is_reexport: bool) {
        let joined = |ident: &syn::Ident| {
            let mut path = before.to_vec();
            path.extend((ident != "self" || before.is_empty()).then(|| ident.to_string()));
            path
        };
        let (path, local, line) = match tree {
            UseTree::Path(path) => {
                return self.import(&path.tree, &joined(&path.ident), is_reexport);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_reexport);
                }
                return;
            }
            UseTree::Name(name) => {
                let path = joined(&name.ident);
                let local = path.last().cloned().unwrap_or_default();
                (path, local, name.ident.span())
            }
            UseTree::Rename(name) => {
                (joined(&name.ident), name.rename.to_string(), name.ident.span())
            }
            UseTree::Glob(glob) => (before.to_vec(), "*".to_owned(), glob.star_token.spans[0]),
        };
        self.name(path, line.start().line, Some(Import { local, is_reexport }));
    }

    pub fn function(&mut self, start: proc_macro2::Span, end: proc_macro2::Span) {
        let (line, last) = (start.start().line, end.end().line);
        self.facts.functions.push(Function { line, lines: last + 1 - line });
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        self.within(attributes_of(item), |reader| {
            reader.define(item);
            visit::visit_item(reader, item);
        });
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let path = module.attrs.iter().find_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
                _ => None,
            },
            _ => None,
        });
        let (name, scope) = (module.ident.to_string(), self.scope.clone());
        let (test, inline) = (self.tests > 0, module.content.is_some());
        self.facts.modules.push(Module { name: name.clone(), scope, test, inline, path });
        self.scope.push(name);
        visit::visit_item_mod(self, module);
        self.scope.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_reexport = !matches!(item.vis, Visibility::Inherited);
        let before = self.facts.names.len();
        self.import(&item.tree, &[], is_reexport);
        let external = item.leading_colon.is_some();
        self.facts.names[before..].iter_mut().for_each(|name| name.external = external);
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        let local = item.rename.as_ref().map_or(&item.ident, |(_, name)| name).to_string();
        let import = Import { local, is_reexport: false };
        self.name(vec![item.ident.to_string()], item.ident.span().start().line, Some(import));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let is_from = |path: &Path| {
            path.segments.last().is_some_and(|last| last.ident == "From" || last.ident == "TryFrom")
        };
        let is_conversion = item.trait_.as_ref().is_some_and(|(of, _)| is_from(of));
        if let (syn::Type::Path(ty), 0, false) = (&*item.self_ty, self.tests, is_conversion) {
            let (segments, scope) = (segments(&ty.path), self.scope.clone());
            let line = item.impl_token.span.start().line;
            self.facts.implementations.push(Implementation { segments, line, scope });
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        self.within(attributes, |reader| visit::visit_impl_item(reader, item));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(function.sig.fn_token.span, function.block.brace_token.span.close());
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(function.sig.fn_token.span, function.block.brace_token.span.close());
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.within(&function.attrs, |reader| {
            if let Some(body) = &function.default {
                reader.function(function.sig.fn_token.span, body.brace_token.span.close());
            }
            visit::visit_trait_item_fn(reader, function);
        });
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.within(&field.attrs, |reader| visit::visit_field(reader, field));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.within(&variant.attrs, |reader| visit::visit_variant(reader, variant));
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.within(&arm.attrs, |reader| visit::visit_arm(reader, arm));
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.within(&local.attrs, |reader| visit::visit_local(reader, local));
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.bodies += 1;
        visit::visit_block(self, block);
        self.bodies -= 1;
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        self.name(segments(path), line, None);
        if let (Some(name), Some(_)) = (self.facts.names.last_mut(), &path.leading_colon) {
            name.external = true;
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(last) = call.path.segments.last() {
            let line = last.ident.span().start().line;
            self.facts.marks.push((format!("{}!", last.ident), line));
        }
        visit::visit_macro(self, call);
        self.tokens(call.tokens.clone(), &[]);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Some(last) = attribute.path().segments.last() {
            let line = last.ident.span().start().line;
            self.facts.marks.push((format!("#[{}]", last.ident), line));
        }
        visit::visit_attribute(self, attribute);
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone(), &[]);
        }
    }
}
