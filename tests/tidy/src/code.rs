//! Sizes of production code: functions, files, structs, parameter lists, comments that repeat a name, circles of files.
//!
//! In: the Rust files of crates, without their tests. Out: what is above a goal, to be compared with the list of what
//! was above it before ([`ratchets`](crate::ratchets)). Never here: a file of tests, code of others.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::{File, Repository};

/// Lines of a function, from its name's line to its last.
pub const FUNCTION_LINES: usize = 110;
/// Lines of a file, without its tests.
pub const FILE_LINES: usize = 900;
/// Fields of a struct.
pub const FIELDS: usize = 20;
/// Parameters of a function.
pub const PARAMETERS: usize = 8;
/// Words of a comment that may be no more than the name again.
const ECHO_WORDS: usize = 3;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Lines of a function.
    Function,
    /// Lines of a file.
    File,
    /// Fields of a struct.
    Fields,
    /// Parameters of a function.
    Parameters,
    /// A crate's comments of at most three words.
    Echoes,
    /// A crate's files in circles of `use`.
    Circles,
}

impl Measure {
    /// Its name in the list.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Measure::Function => "function",
            Measure::File => "file",
            Measure::Fields => "fields",
            Measure::Parameters => "parameters",
            Measure::Echoes => "echoes",
            Measure::Circles => "circles",
        }
    }
}

/// A size above its goal: what, where, how much.
pub type Size = (Measure, String, usize);

/// Everything above a goal.
///
/// # Errors
/// A file that is not Rust.
pub fn sizes(repository: &Repository) -> Result<Vec<Size>, String> {
    let mut sizes = Vec::new();
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for file in repository.files.iter().filter(|file| is_production(&file.path)) {
        let parsed = syn::parse_file(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
        let (mut walk, whose) = (Walk::new(file), crate_of(&file.path));
        walk.visit_file(&parsed);
        walk.lines = file.text.lines().count().saturating_sub(walk.test_lines);
        let over = |(what, name, size): &Size| *size > goal(*what) && !name.is_empty();
        sizes.extend(walk.sizes.iter().filter(|size| over(size)).cloned());
        sizes.extend(Some((Measure::File, file.path.clone(), walk.lines)).filter(over));
        let own = crates.entry(whose).or_default();
        own.echoes += walk.echoes;
        own.uses.insert(module_of(&file.path), walk.uses);
    }
    for (name, found) in crates {
        sizes.extend(Some((Measure::Echoes, name.to_owned(), found.echoes)).filter(|size| size.2 > 0));
        sizes.extend(Some((Measure::Circles, name.to_owned(), in_circles(&found.uses))).filter(|size| size.2 > 0));
    }
    sizes.sort();
    Ok(sizes)
}

fn goal(measure: Measure) -> usize {
    match measure {
        Measure::Function => FUNCTION_LINES,
        Measure::File => FILE_LINES,
        Measure::Fields => FIELDS,
        Measure::Parameters => PARAMETERS,
        Measure::Echoes | Measure::Circles => 0,
    }
}

#[derive(Default)]
struct Crate {
    echoes: usize,
    /// By module: the modules of the crate that it names.
    uses: BTreeMap<String, BTreeSet<String>>,
}

fn is_production(path: &str) -> bool {
    let own = path.strip_prefix("crates/").or_else(|| path.strip_prefix("lab/"));
    own.is_some_and(|own| own.contains("src/"))
        && path.ends_with(".rs")
        && !path.ends_with("/tests.rs")
        && !path.contains("/tests/")
        && !path.ends_with("_tests.rs")
}

fn crate_of(path: &str) -> &str {
    path.split("/src/").next().unwrap_or(path)
}

/// The module of a file: its path below `src`, without what is the folder's own file.
fn module_of(path: &str) -> String {
    let own = path.split_once("/src/").map_or(path, |(_, own)| own).trim_end_matches(".rs");
    own.trim_end_matches("/mod").to_owned()
}

/// What one file holds.
struct Walk<'a> {
    file: &'a File,
    /// The type or module around what is visited.
    around: Vec<String>,
    sizes: Vec<Size>,
    lines: usize,
    test_lines: usize,
    echoes: usize,
    uses: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn new(file: &'a File) -> Walk<'a> {
        let (around, sizes, uses) = (Vec::new(), Vec::new(), BTreeSet::new());
        Walk { file, around, sizes, lines: 0, test_lines: 0, echoes: 0, uses }
    }

    fn note(&mut self, measure: Measure, name: &str, size: usize) {
        let around: String = self.around.iter().map(|part| format!("{part}::")).collect();
        self.sizes.push((measure, format!("{}::{around}{name}", self.file.path), size));
    }

    fn function(&mut self, signature: &syn::Signature, end: proc_macro2::LineColumn) {
        let name = signature.ident.to_string();
        self.note(Measure::Function, &name, end.line + 1 - signature.ident.span().start().line);
        self.note(Measure::Parameters, &name, signature.inputs.len());
    }

    /// Modules of the crate that a path names: `crate::a::b` and `super::a`, the file or folder that has such a name.
    fn path(&mut self, parts: &[String]) {
        let own = module_of(&self.file.path);
        let mut base: Vec<&str> = if own == "lib" || own == "main" { Vec::new() } else { own.split('/').collect() };
        let mut parts = parts.iter().map(String::as_str).peekable();
        match parts.next() {
            Some("crate") => base.clear(),
            Some("super") => drop(base.pop()),
            _ => return,
        }
        while parts.peek() == Some(&"super") {
            base.pop();
            parts.next();
        }
        base.extend(parts.take_while(|part| part.starts_with(|first: char| first.is_ascii_lowercase())));
        self.uses.insert(base.join("/"));
    }
}

/// True for what only tests are built with.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        is_cfg && attribute.parse_args::<syn::Ident>().is_ok_and(|only| only == "test")
    })
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test(&item.attrs) {
            self.test_lines += item.span().end().line + 1 - item.span().start().line;
            return;
        }
        self.around.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.around.pop();
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
            _ => String::new(),
        };
        self.around.push(name);
        visit::visit_item_impl(self, item);
        self.around.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.function(&item.sig, item.block.span().end());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, item.block.span().end());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.note(Measure::Fields, &item.ident.to_string(), item.fields.len());
        visit::visit_item_struct(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("doc")
            && let syn::Meta::NameValue(value) = &attribute.meta
            && let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &value.value
        {
            let text = text.value();
            let words = text.split_whitespace().count();
            let is_whole = text.trim_end().ends_with('.') && text.trim_start().starts_with(char::is_uppercase);
            self.echoes += usize::from(is_whole && words <= ECHO_WORDS);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            leaves(&item.tree, &mut Vec::new(), &mut |parts| self.path(parts));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.path(&parts);
        visit::visit_path(self, path);
    }
}

fn leaves(tree: &syn::UseTree, before: &mut Vec<String>, each: &mut dyn FnMut(&[String])) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            leaves(&path.tree, before, each);
            before.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| leaves(item, before, each)),
        syn::UseTree::Name(name) => {
            before.push(name.ident.to_string());
            each(before);
            before.pop();
        }
        syn::UseTree::Rename(_) | syn::UseTree::Glob(_) => each(before),
    }
}

/// Number of files that reach themselves by what they name. A path leads to the longest module that is one of them.
fn in_circles(uses: &BTreeMap<String, BTreeSet<String>>) -> usize {
    let to_file = |path: &String| {
        let mut path = path.as_str();
        loop {
            if let Some((own, _)) = uses.get_key_value(path) {
                return Some(own.as_str());
            }
            path = path.rsplit_once('/')?.0;
        }
    };
    let arrows: BTreeMap<&str, BTreeSet<&str>> =
        uses.iter().map(|(from, to)| (from.as_str(), to.iter().filter_map(to_file).collect())).collect();
    let reaches_itself = |start: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = arrows.get(start).into_iter().flatten().copied().filter(|to| *to != start).collect();
        while let Some(at) = open.pop() {
            if at == start {
                return true;
            }
            if seen.insert(at) {
                open.extend(arrows.get(at).into_iter().flatten());
            }
        }
        false
    };
    arrows.keys().filter(|file| reaches_itself(file)).count()
}
