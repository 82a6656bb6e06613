//! The files of a crate import one another without circles, so that a crate can be read from the bottom up.
//! An import counts from the file that names an item to the file that defines it, through all re-exports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::finding::Finding;
use super::items::{self, Items};
use super::tree::{File, Tree};

/// How many re-exports lead from a name to its item, at most.
const STEPS: usize = 8;

/// A file of a crate.
struct Module<'a> {
    file: &'a File,
    parent: usize,
    children: BTreeMap<String, usize>,
    items: Items,
}

/// From one module to another, with the line of the first import.
type Arrows = BTreeMap<(usize, usize), usize>;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let roots = tree.rust().filter(|file| is_root(&file.path));
    for root in roots {
        let mut modules = Vec::new();
        read(tree, root, 0, &mut modules);
        let arrows = arrows(&modules);
        findings.extend(circles(&arrows).iter().map(|circle| finding(&modules, &arrows, circle)));
    }
    findings
}

fn is_root(path: &str) -> bool {
    let in_crate = path.split('/').rev().nth(1) == Some("src");
    let ours = path.starts_with("crates/") || path.starts_with("xtask/");
    ours && in_crate && (path.ends_with("/lib.rs") || path.ends_with("/main.rs"))
}

/// Adds the file and those of the modules that it declares; returns its place.
fn read<'a>(tree: &'a Tree, file: &'a File, parent: usize, modules: &mut Vec<Module<'a>>) -> usize {
    let place = modules.len();
    modules.push(Module { file, parent, children: BTreeMap::new(), items: items::read(&file.text) });
    let stem = file.path.trim_end_matches(".rs");
    let own = ["/lib", "/main", "/mod"].iter().find_map(|name| stem.strip_suffix(name));
    let dir = own.unwrap_or(stem);
    for name in modules[place].items.modules.clone() {
        let paths = [format!("{dir}/{name}.rs"), format!("{dir}/{name}/mod.rs")];
        if let Some(file) = paths.iter().find_map(|path| tree.find(path)) {
            let child = read(tree, file, place, modules);
            modules[place].children.insert(name, child);
        }
    }
    place
}

fn arrows(modules: &[Module]) -> Arrows {
    let mut arrows = Arrows::new();
    for (from, module) in modules.iter().enumerate() {
        // A file that hands on what another defines does not need it for itself.
        let imports = module.items.imports.iter().filter(|import| !import.exported);
        for path in imports.map(|import| &import.path).chain(&module.items.paths) {
            if let Some(to) = definer(modules, from, &path.parts, STEPS)
                && to != from
            {
                let line = arrows.entry((from, to)).or_insert(path.line);
                *line = path.line.min(*line);
            }
        }
    }
    arrows
}

/// The module that defines what a path names which stands in `at`; nothing for a module itself, or what is
/// not of this crate.
fn definer(modules: &[Module], at: usize, parts: &[String], steps: usize) -> Option<usize> {
    let (first, rest) = parts.split_first()?;
    let module = &modules[at];
    match first.as_str() {
        "crate" => return definer(modules, 0, rest, steps),
        "super" => return definer(modules, module.parent, rest, steps),
        "self" => return definer(modules, at, rest, steps),
        // All of a module: each of its names that is used counts where it is used.
        "*" => return None,
        _ => {}
    }
    if let Some(child) = module.children.get(first) {
        return definer(modules, *child, rest, steps);
    }
    if module.items.defined.contains(first) {
        return Some(at);
    }
    let steps = steps.checked_sub(1)?;
    let named = module.items.imports.iter().filter(|import| import.name == *first || import.name == "*");
    named.filter(|import| import.path.parts != parts).find_map(|import| {
        let all = import.name == "*";
        let path = &import.path.parts[..import.path.parts.len() - usize::from(all)];
        let rest = if all { parts } else { rest };
        definer(modules, at, &[path, rest].concat(), steps)
    })
}

/// A shortest circle through each arrow that is in one, each once.
fn circles(arrows: &Arrows) -> BTreeSet<Vec<usize>> {
    let mut found = BTreeSet::new();
    for &(from, to) in arrows.keys() {
        let Some(mut circle) = way(arrows, to, from) else { continue };
        let least = (0..circle.len()).min_by_key(|i| circle[*i]).unwrap_or(0);
        circle.rotate_left(least);
        found.insert(circle);
    }
    found
}

/// The shortest way, with both its ends.
fn way(arrows: &Arrows, from: usize, to: usize) -> Option<Vec<usize>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::from([from]);
    while let Some(way) = ways.pop_front() {
        let last = *way.last()?;
        if last == to {
            return Some(way);
        }
        let next = arrows.range((last, 0)..=(last, usize::MAX)).map(|((_, next), _)| *next);
        ways.extend(next.filter(|next| seen.insert(*next)).map(|next| [&way[..], &[next]].concat()));
    }
    None
}

fn finding(modules: &[Module], arrows: &Arrows, circle: &[usize]) -> Finding {
    let mut text = String::from("imports go round in a circle:");
    for (i, from) in circle.iter().enumerate() {
        let to = circle[(i + 1) % circle.len()];
        let (line, file) = (arrows[&(*from, to)], modules[*from].file);
        let import = file.text.lines().nth(line - 1).unwrap_or("").trim();
        text += &format!("\n    {}:{line} needs {}: {import}", file.path, modules[to].file.path);
    }
    text += "\n  give what both need a file of its own, or move a function to the side that uses it";
    let first = circle[0];
    let line = arrows[&(first, circle[1 % circle.len()])];
    Finding::new(&modules[first].file.path, line, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of each circle, in their order, without the folder of the crate.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let files: Vec<_> = paths.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let arrows = |text: &str| {
            let lines = text.lines().filter_map(|line| line.trim().strip_prefix("crates/a/src/"));
            let froms: Vec<_> = lines.filter_map(|line| line.split(" needs ").next()).collect();
            froms.join(" ")
        };
        check(&Tree::of(&files)).iter().map(|found| arrows(&found.text)).collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        for (a, b) in [
            ("use crate::b::B;\npub struct A(B);", "use crate::a::A;\npub struct B;"),
            ("use super::b::B;\npub struct A(B);", "pub struct B;\nfn b() { crate::a::A::new() }"),
            ("pub struct A(super::b::B);", "pub struct B;\nfn b() { use crate::{a::A, x}; }"),
            (
                "use crate::b;\npub struct A(b::B);",
                "use crate::a::{self as of, A as Other};\npub struct B(Other);",
            ),
            ("pub struct A(crate::B);", "use crate::A;\npub struct B;"),
        ] {
            let (a, b) = (format!("\n{a}"), format!("\n{b}"));
            let lib = "mod a;\nmod b;\npub use a::A;\npub use b::B;";
            let circles = found(&[("lib.rs", lib), ("a.rs", &a), ("b.rs", &b)]);
            assert!(circles.len() == 1 && circles[0].starts_with("a.rs:"), "{a} {b}: {circles:?}");
        }
    }

    #[test]
    fn a_circle_names_the_line_of_each_arrow() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", "use crate::b::B;\npub struct A(B);"),
            ("b.rs", "pub struct B;\nfn b(c: crate::c::C) {}"),
            ("c/mod.rs", "\n\nuse super::a::A;\npub struct C(A);"),
        ];
        assert_eq!(found(&files), ["a.rs:1 b.rs:2 c/mod.rs:3"]);
    }

    #[test]
    fn a_parent_that_hands_on_is_in_no_circle_and_one_that_defines_is() {
        let child = ("a.rs", "use crate::{Error, b::B};\npub struct A(B, Error);");
        let b = ("b.rs", "use super::Error;\npub struct B(Error);");
        let of = |lib: &str| found(&[("lib.rs", lib), child, b, ("error.rs", "pub struct Error;")]);
        assert_eq!(of("mod a;\nmod b;\nmod error;\npub use a::A;\npub use error::*;"), [""; 0]);
        assert_eq!(of("mod a;\nmod b;\npub use a::A;\npub struct Error;"), [""; 0], "it uses neither");
        let circles = of("mod a;\nmod b;\npub use a::A;\npub struct Error;\nfn f(a: A) {}");
        assert_eq!(circles, ["lib.rs:5 a.rs:1", "lib.rs:5 a.rs:1 b.rs:1"]);
    }

    #[test]
    fn tests_methods_and_other_crates_make_no_circle() {
        for b in [
            "#[cfg(test)]\nmod tests { use crate::a::A; }\npub struct B;",
            "#[cfg(test)]\nuse crate::a::A;\npub struct B;",
            "pub struct B;\n#[test]\nfn t() { crate::a::f(); }",
            "mod tests;\npub struct B;",
            "pub struct B;\nfn f(x: &str) { x.a(); other::a::A::f(); /* crate::a::A */ }",
            "pub struct B;\npub(in crate::a) fn f() {}",
            "pub struct B;\npub mod list { pub const A: u8 = 1; pub const C: u8 = super::list::A; }",
        ] {
            let b = b.replace("mod tests;", "#[cfg(test)]\nmod tests;");
            let a = "use crate::b::B;\npub struct A;\nimpl B { fn a(&self) {} }\npub fn f() {}";
            let files =
                [("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", &b), ("b/tests.rs", "use crate::a::A;")];
            assert_eq!(found(&files), [""; 0], "{b}");
        }
    }
}
