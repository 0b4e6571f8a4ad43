//! The book and the README agree with themselves and with the code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All files below a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

fn pages() -> Vec<PathBuf> {
    let mut pages = files(&root().join("docs/src"), "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|file| root().join(file)));
    pages
}

/// Where the links of a page lead, without those to other sites and those in code.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.starts_with("https://")).collect()
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-');
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(page).unwrap();
    text.lines().any(|line| line.starts_with('#') && anchor(line) == wanted)
}

#[test]
fn every_link_leads_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link}", page.display());
            assert!(anchor.is_empty() || has_anchor(&target, anchor), "{}: {link}", page.display());
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn every_page_is_in_the_summary() {
    let book = root().join("docs/src");
    let summary = fs::read_to_string(book.join("SUMMARY.md")).unwrap();
    let listed = links(&summary);
    for page in files(&book, "md") {
        let name = page.strip_prefix(&book).unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || listed.contains(&name), "{name} is not listed");
    }
}

#[test]
fn the_tests_that_guard_the_connection_exist() {
    let page = fs::read_to_string(root().join("docs/src/connection.md")).unwrap();
    let folder = root().join("crates/ferrisson-fred");
    let sources: Vec<_> = files(&folder, "rs").iter().map(fs::read_to_string).collect();
    let table = page.split_once("## Tests").unwrap().1;
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = rows.map(|row| row.trim_end_matches('|').rsplit_once(" | ").unwrap().1);
    let names: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let function = format!("fn {}()", name.rsplit("::").next().unwrap());
        let exists = sources.iter().any(|source| source.as_ref().unwrap().contains(&function));
        assert!(exists, "{name} is named, and does not exist");
    }
}

#[test]
fn the_book_knows_every_key_and_channel() {
    let keys = root().join("crates/ferrisson-protocol/src/keys.rs");
    let source = fs::read_to_string(keys).unwrap();
    let page = fs::read_to_string(root().join("docs/src/protocol.md")).unwrap();
    let code = source.split("#[cfg(test)]").next().unwrap();
    let prefixes: Vec<&str> = code
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| ["redisson_", "ferrisson_"].iter().any(|start| text.starts_with(start)))
        .collect();
    assert!(prefixes.len() >= 5, "{prefixes:?}");
    for prefix in prefixes {
        assert!(page.contains(prefix), "{prefix} is not in the book");
    }
}

/// The tests below `tests/src` that say in a comment which fault cases they show: `file::test` and
/// the cases.
fn tests_of_fault_cases() -> BTreeMap<String, Vec<String>> {
    let sources = root().join("tests/src");
    let mut tests = BTreeMap::new();
    for file in files(&sources, "rs") {
        let text = fs::read_to_string(&file).unwrap();
        let file = file.strip_prefix(&sources).unwrap().to_str().unwrap().to_owned();
        let mut cases = Vec::new();
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("// B") {
                let words = line.split(|c: char| !c.is_ascii_alphanumeric());
                let is_case = |word: &&str| {
                    let number = word.strip_prefix('B').filter(|number| number.len() == 3);
                    number.is_some_and(|number| number.parse::<u16>().is_ok())
                };
                cases = words.filter(is_case).map(str::to_owned).collect();
            } else if let Some((_, name)) = line.split_once("fn ").filter(|_| !cases.is_empty()) {
                let name = name.split('(').next().unwrap();
                tests.insert(format!("{file}::{name}"), std::mem::take(&mut cases));
            }
        }
    }
    tests
}

#[test]
fn every_fault_case_has_a_row_whose_tests_exist() {
    let tests = tests_of_fault_cases();
    let page = fs::read_to_string(root().join("docs/src/fault-cases.md")).unwrap();
    let mut rows = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| B")) {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, case, _, .., shown, _] = columns[..] else { panic!("{row}") };
        assert!(rows.insert(case.to_owned()), "{case} has two rows");
        assert!(!shown.is_empty(), "{case}");
        for test in shown.split('`').filter(|part| part.contains("::") && part.contains(".rs")) {
            let cases = tests.get(test).unwrap_or_else(|| panic!("{case}: there is no {test}"));
            assert!(cases.iter().any(|it| it == case), "{test} does not say that it shows {case}");
        }
    }
    assert_eq!(rows.len(), 204);
    for (test, case) in
        tests.iter().flat_map(|(test, cases)| cases.iter().map(move |it| (test, it)))
    {
        assert!(rows.contains(case), "{test} shows {case}, which has no row");
    }
}
