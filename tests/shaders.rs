//! Shaders held against their Rust side, without a GPU: reflection, layout, constants, limits, claimed files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use headlight::gpu::{Access, ParameterField, Profile, STORAGE_BUFFERS, Target, reflect};
use headlight::kernel::{KERNELS, piece};

/// Runs a check for every distinct text that the cases of a kernel make of a design.
fn for_every_shader(
    mut check: impl FnMut(&headlight::tape::Kernel, &headlight::tape::DesignInfo, &str, headlight::gpu::Reflection),
) {
    for kernel in KERNELS {
        let cases = (kernel.cases)();
        for design in (kernel.designs)() {
            let mut seen = BTreeSet::new();
            for case in &cases {
                let parameters = case.parameters.as_any();
                let source = design
                    .source(parameters, Target::Native)
                    .unwrap_or_else(|error| panic!("{}/{}: {error}", kernel.name, design.name));
                if seen.insert(source.text.clone()) {
                    let reflection = reflect(design.file, &source)
                        .unwrap_or_else(|error| panic!("{}/{}: {error}", kernel.name, design.name));
                    check(kernel, &design, &source.text, reflection);
                }
            }
            assert!(!seen.is_empty(), "{} has no cases", kernel.name);
        }
    }
}

#[test]
fn parameter_structs_have_the_same_fields_on_both_sides() {
    for_every_shader(|kernel, design, _, reflection| {
        let declared: Vec<ParameterField> = kernel
            .fields
            .iter()
            .map(|field| ParameterField { name: field.name.into(), kind: field.kind, offset: field.offset as u32 })
            .collect();
        assert_eq!(reflection.parameters, declared, "{}/{}", kernel.name, design.name);
    });
}

#[test]
fn bindings_are_as_many_as_operands_and_written_where_the_kernel_says_so() {
    let mut counts = BTreeMap::new();
    for_every_shader(|kernel, design, _, reflection| {
        let operands = *counts.entry(kernel.name).or_insert_with(|| (kernel.cases)()[0].operands.len());
        assert_eq!(reflection.bindings.len(), operands, "{}/{}", kernel.name, design.name);
        assert!(operands <= STORAGE_BUFFERS, "{}/{}", kernel.name, design.name);
        let written: Vec<usize> = reflection
            .bindings
            .iter()
            .enumerate()
            .filter_map(|(index, binding)| (binding.access == Access::ReadWrite).then_some(index))
            .collect();
        assert_eq!(written, kernel.writes, "{}/{}", kernel.name, design.name);
    });
}

#[test]
fn workgroups_fit_what_every_device_grants() {
    let limits = Profile::webgpu_defaults().limits;
    for_every_shader(|kernel, design, _, reflection| {
        let invocations: u32 = reflection.workgroup_size.iter().product();
        assert!(invocations <= limits.invocations, "{}/{}", kernel.name, design.name);
        assert!(reflection.workgroup_bytes <= limits.workgroup_bytes, "{}/{}", kernel.name, design.name);
    });
}

#[test]
fn the_work_of_a_launch_is_bounded_by_its_parameters() {
    for_every_shader(|kernel, design, text, _| {
        assert!(!text.contains("arrayLength"), "{}/{}", kernel.name, design.name);
    });
}

/// Writes the texts where `scripts/tint.sh` asks for them; without it, only checks that they assemble.
#[test]
fn browsers_get_a_text_of_every_shader() {
    let folder = std::env::var_os("HEADLIGHT_SHADER_TEXTS").map(std::path::PathBuf::from);
    let mut written = 0;
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            let mut seen = BTreeSet::new();
            for case in (kernel.cases)() {
                let source = design.source(case.parameters.as_any(), Target::WebGpu).unwrap();
                if seen.insert(source.text.clone()) {
                    if let Some(folder) = &folder {
                        let name = format!("{}-{}-{}.wgsl", kernel.name, design.name, seen.len());
                        std::fs::write(folder.join(name), &source.text).unwrap();
                    }
                    written += 1;
                }
            }
        }
    }
    assert!(written >= KERNELS.len());
}

#[test]
fn every_design_runs_some_case_on_some_adapter() {
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            let mut profile = Profile::webgpu_defaults();
            profile.subgroups =
                design.subgroup_width.map(|width| headlight::gpu::SubgroupSizes { minimum: width, maximum: width });
            let runs = (kernel.cases)().iter().any(|case| design.fits(case.parameters.as_any(), &profile).is_ok());
            assert!(runs, "{}/{} runs none of its cases", kernel.name, design.name);
        }
    }
}

#[test]
fn every_case_runs_on_a_device_that_grants_only_the_defaults() {
    let profile = Profile::webgpu_defaults();
    for kernel in KERNELS {
        for case in (kernel.cases)() {
            let design = kernel.choose(case.parameters.as_any(), &profile);
            assert!(design.is_some(), "{}[{}]", kernel.name, case.name);
        }
    }
}

#[test]
fn case_names_are_unique() {
    for kernel in KERNELS {
        let mut names = BTreeSet::new();
        for case in (kernel.cases)() {
            assert!(names.insert(case.name.clone()), "{}[{}] twice", kernel.name, case.name);
        }
    }
}

#[test]
fn every_shader_file_is_used_by_a_kernel() {
    let mut claimed: BTreeSet<String> = piece::ALL.iter().map(|piece| piece.file.to_string()).collect();
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            claimed.insert(design.file.to_string());
            let listed = design.pieces.iter().all(|piece| piece::ALL.contains(piece));
            assert!(listed, "{}/{} uses a piece that is not listed", kernel.name, design.name);
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let mut found = BTreeSet::new();
    for folder in ["", "common"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "wgsl") {
                found.insert(path.strip_prefix(&root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    assert_eq!(found, claimed);
}
