//! Plans held against an adapter's limits, without an adapter.

use headlight::gpu::{AdapterKind, Profile, SubgroupSizes};
use headlight::graph::{Recompute, Reuse, Rewrites};
use headlight::model::GptConfig;
use headlight::train::program::{Optimizer, Program, ProgramSpec, build_program};

fn plan(config: GptConfig, batch: usize, rewrites: Rewrites, profile: &Profile) -> Result<Program, String> {
    let optimizer = Optimizer { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.1, clip: 1.0 };
    let context_length = config.context_length;
    let spec =
        ProgramSpec { config, batch, context_length, accumulation: 1, rewrites, recompute: Recompute::None, optimizer };
    build_program(&spec, Some(profile), Reuse::Pooled).map_err(|error| error.to_string())
}

/// As lavapipe describes itself: subgroups of eight, 128 MiB a binding.
fn software() -> Profile {
    Profile {
        kind: AdapterKind::Software,
        subgroups: Some(SubgroupSizes { minimum: 8, maximum: 8 }),
        ..Profile::webgpu_defaults()
    }
}

#[test]
fn naive_scores_of_four_heads_fit_one_binding_up_to_2896_tokens_and_are_refused_with_both_numbers_from_2897() {
    let config = |context| GptConfig::new(65, context, 1, 4, 32).unwrap();
    for profile in [Profile::webgpu_defaults(), software()] {
        assert!(plan(config(2896), 1, Rewrites::Naive, &profile).is_ok());
        let refusal = plan(config(2897), 1, Rewrites::Naive, &profile).err().unwrap();
        assert!(refusal.contains("134281744") && refusal.contains("134217728"), "{refusal}");
        assert!(plan(config(2897), 1, Rewrites::Fused, &profile).is_ok(), "fused attention has no scores to hold");
    }
}

#[test]
fn every_preset_sized_model_has_a_design_for_each_launch_on_default_limits() {
    for (config, batch) in [
        (GptConfig::new(65, 64, 2, 2, 64), 8),
        (GptConfig::new(65, 64, 4, 4, 128), 12),
        (GptConfig::new(68, 256, 6, 6, 384), 64),
        // Nothing divides anything here.
        (GptConfig::new(67, 61, 2, 3, 39), 5),
    ] {
        let config = config.unwrap();
        for rewrites in [Rewrites::Naive, Rewrites::Fused] {
            for profile in [Profile::webgpu_defaults(), software()] {
                let program = plan(config.clone(), batch, rewrites, &profile);
                assert!(program.is_ok(), "{config:?} {rewrites:?}: {}", program.err().unwrap());
            }
        }
    }
}

#[test]
fn fused_attention_needs_less_memory_and_the_difference_grows_with_the_square_of_the_context() {
    let bytes = |context, rewrites| {
        let config = GptConfig::new(65, context, 2, 4, 32).unwrap();
        let tape = plan(config, 1, rewrites, &software()).unwrap().tape;
        tape.buffers.iter().map(|buffer| buffer.bytes()).sum::<u64>()
    };
    let difference = |context| bytes(context, Rewrites::Naive) - bytes(context, Rewrites::Fused);
    let ratio = difference(1024) as f64 / difference(512) as f64;
    assert!((3.8..4.1).contains(&ratio), "{ratio}");
}

#[test]
fn attention_over_more_keys_than_an_adapter_loops_over_is_refused_and_not_cut_short() {
    use headlight::kernel::attention_backward_key_value as backward;
    use headlight::kernel::attention_shape::{AttentionShape, RowView};
    let design = |group: u32, length: u32, head_dim: u32, profile: &Profile| {
        let shape = AttentionShape {
            batch: 1,
            heads: group,
            key_value_heads: 1,
            query_length: length,
            key_length: length,
            head_dim,
            causal: true,
            scale: 1.0,
        };
        let view = RowView::contiguous(group, length, head_dim);
        let parameters = backward::Parameters::new(&shape, [view; 6]);
        backward::KERNEL.choose(&parameters, profile).map(|design| design.name)
    };
    let hardware = Profile::webgpu_defaults();
    assert_eq!(design(1, 65_536, 32, &software()), Some("subgroup"));
    // Eight query heads read one key head: 8 x 8,192 rounds for a design that takes a query at a time.
    assert_eq!(design(8, 8_192, 13, &software()), None);
    assert_eq!(design(4, 8_192, 13, &software()), Some("general"));
    assert_eq!(design(8, 8_192, 13, &hardware), Some("tiled_general"));
}
