//! The lists of mutants held against the shaders, without a GPU: every kind that applies to a design is there, every
//! barrier is taken away by one, and each plants its fault in every text of its design.

use std::collections::BTreeSet;

use headlight::gpu::{ShaderSource, Target};
use headlight::kernel::KERNELS;
use headlight::tape::{Case, DesignInfo, Kernel, MutantKind};

const BARRIER: &str = "workgroupBarrier();";

/// A design, and for each distinct text that the cases make of it a case that does.
struct Texts {
    name: String,
    design: DesignInfo,
    sources: Vec<(Case, ShaderSource)>,
}

fn texts_of(kernel: &Kernel, design: DesignInfo, cases: &[Case]) -> Texts {
    let mut seen = BTreeSet::new();
    let mut sources = Vec::new();
    for case in cases {
        let source = design.source(case.parameters.as_any(), Target::Native).unwrap();
        if seen.insert(source.text.clone()) {
            sources.push((case.clone(), source));
        }
    }
    Texts { name: format!("{}/{}", kernel.name, design.name), design, sources }
}

fn for_every_design(mut check: impl FnMut(&Texts)) {
    for kernel in KERNELS {
        let cases = (kernel.cases)();
        for design in (kernel.designs)() {
            check(&texts_of(kernel, design, &cases));
        }
    }
}

/// The code of a shader, without comments and the heads of loops.
fn body(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.filter(|line| !line.trim_start().starts_with("for (")).collect::<Vec<_>>().join("\n")
}

/// Whether a text has what mutants of a kind break.
fn applies(kind: MutantKind, text: &str) -> bool {
    let body = body(text);
    let has = |words: &[&str]| words.iter().any(|word| body.contains(word));
    match kind {
        // Every kernel takes elements by number, up to an end.
        MutantKind::Index | MutantKind::Tile => true,
        MutantKind::Mask => has(&["visible_keys(", "first_query(", "INVISIBLE", "hidden"]),
        MutantKind::Rescale => has(&["exp("]) && has(&["correction", "raised"]),
        MutantKind::Barrier => has(&[BARRIER]),
        MutantKind::Accumulator => has(&["+="]),
        MutantKind::Formula => false,
    }
}

#[test]
fn every_design_has_mutants_of_each_kind_that_applies_to_it() {
    use MutantKind::{Accumulator, Barrier, Index, Mask, Rescale, Tile};
    let mut lacking = Vec::new();
    for_every_design(|texts| {
        for kind in [Index, Tile, Mask, Rescale, Barrier, Accumulator] {
            let applies = texts.sources.iter().any(|(_, source)| applies(kind, &source.text));
            if applies && !texts.design.mutants.into_iter().any(|mutant| mutant.kind == kind) {
                lacking.push(format!("{} has no mutant of kind {}", texts.name, kind.word()));
            }
        }
    });
    assert!(lacking.is_empty(), "{}", lacking.join("\n"));
}

#[test]
fn every_barrier_is_taken_away_by_a_mutant_and_nothing_else_is() {
    let mut checked = 0;
    for_every_design(|texts| {
        for (_, source) in &texts.sources {
            let place = |at: usize| {
                let (file, line) = source.origin(source.text[..at].lines().count() as u32);
                format!("{file}:{line}")
            };
            let barriers: BTreeSet<String> = source.text.match_indices(BARRIER).map(|(at, _)| place(at)).collect();
            let taken: BTreeSet<String> = texts
                .design
                .mutants
                .into_iter()
                .filter(|mutant| mutant.kind == MutantKind::Barrier)
                .map(|mutant| {
                    let name = format!("{}, '{}'", texts.name, mutant.name);
                    assert!(mutant.original.starts_with(BARRIER) && mutant.replacement.is_empty(), "{name}");
                    assert_eq!(mutant.original.lines().count(), 1, "{name}");
                    place(source.text.find(mutant.original).unwrap_or_else(|| panic!("{name} is not found")))
                })
                .collect();
            assert_eq!(taken, barriers, "{}", texts.name);
            checked += barriers.len();
        }
    });
    assert!(checked > 0);
}

#[test]
fn mutants_are_found_once_in_each_text_of_their_design_and_leave_a_valid_shader() {
    for_every_design(|texts| {
        for mutant in texts.design.mutants {
            for (case, source) in &texts.sources {
                let place = format!("{}, '{}', {}", texts.name, mutant.name, case.name);
                let mutated = texts.design.mutated(case.parameters.as_any(), mutant);
                let mutated = mutated.unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_ne!(mutated.text, source.text, "{place}");
                mutated.validate().unwrap_or_else(|error| panic!("{place}: {error}"));
            }
        }
    });
}

#[test]
fn the_mutants_of_a_design_have_names_of_their_own() {
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            let mut names = BTreeSet::new();
            for mutant in design.mutants {
                assert!(names.insert(mutant.name), "{}/{}: '{}' twice", kernel.name, design.name, mutant.name);
            }
        }
    }
}

#[test]
fn the_rules_tell_which_kinds_apply() {
    for (text, kind, expected) in [
        ("for (var k = 0u; k < 4u; k += 1u) { y[k] = x[k]; }", MutantKind::Accumulator, false),
        ("sum += x[k]; // as usual", MutantKind::Accumulator, true),
        ("y = x; // not +=", MutantKind::Accumulator, false),
        ("let correction = exp(m - largest);", MutantKind::Rescale, true),
        ("let correction = sum * share;", MutantKind::Rescale, false),
        ("let end = visible_keys(row);", MutantKind::Mask, true),
        ("// see visible_keys(", MutantKind::Mask, false),
        ("workgroupBarrier();", MutantKind::Barrier, true),
        ("// no workgroupBarrier();", MutantKind::Barrier, false),
    ] {
        assert_eq!(applies(kind, text), expected, "{text}");
    }
}
