//! The seeds and the findings of every fuzz target, run through its function: they hold without a fuzzer.

#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join(name)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_seed_and_every_finding_holds() {
    for (target, function) in targets::TARGETS {
        let seeds = folder("seeds").join(target);
        let findings = folder("findings").join(target);
        let mut count = 0;
        for folder in [seeds, findings].iter().filter(|folder| folder.is_dir()) {
            for name in names(folder) {
                let path = folder.join(name);
                // Shown where the function panics.
                println!("{}", path.display());
                function(&std::fs::read(&path).unwrap());
                count += 1;
            }
        }
        assert!(count > 0, "{target} has no seeds");
    }
}

#[test]
fn every_target_is_listed_with_its_program_and_its_seeds() {
    let mut listed: Vec<&str> = targets::TARGETS.iter().map(|(target, _)| *target).collect();
    listed.sort_unstable();
    assert_eq!(names(&folder("seeds")), listed);
    let programs: Vec<String> = listed.iter().map(|target| format!("{target}.rs")).collect();
    assert_eq!(names(&folder("fuzz_targets")), programs);
}
