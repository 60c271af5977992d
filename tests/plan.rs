//! Plans held against an adapter's limits, without an adapter.

use headlight::gpu::{AdapterKind, Profile, SubgroupSizes};
use headlight::graph::{Recompute, Reuse, Rewrites};
use headlight::model::GptConfig;
use headlight::tape::Category;
use headlight::train::memory::{Binding, Footprint, MemoryLimit};
use headlight::train::program::{Optimizer, Program, ProgramSpec, build_program};

fn spec(config: GptConfig, batch: usize, rewrites: Rewrites) -> ProgramSpec {
    let optimizer = Optimizer { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.1, clip: 1.0 };
    let context_length = config.context_length;
    ProgramSpec { config, batch, context_length, accumulation: 1, rewrites, recompute: Recompute::None, optimizer }
}

fn plan(config: GptConfig, batch: usize, rewrites: Rewrites, profile: &Profile) -> Result<Program, String> {
    build_program(&spec(config, batch, rewrites), Some(profile), Reuse::Pooled).map_err(|error| error.to_string())
}

/// What a model of some layers, heads and positions takes, eight wide a head.
fn predict(
    (layers, heads, context): (usize, usize, usize),
    batch: usize,
    rewrites: Rewrites,
    profile: &Profile,
) -> Footprint {
    let config = GptConfig::new(65, context, layers, heads, 8 * heads).unwrap();
    Footprint::predict(&spec(config, batch, rewrites), Some(profile)).unwrap()
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
fn naive_scores_of_four_heads_are_one_binding_up_to_2896_tokens_and_in_windows_from_2897() {
    for profile in [Profile::webgpu_defaults(), software()] {
        let binding = |context, rewrites| predict((1, 4, context), 1, rewrites, &profile).binding(None);
        assert_eq!(binding(2896, Rewrites::Naive), Binding::Whole);
        let Binding::Windows { buffers, largest: 134_281_744 } = binding(2897, Rewrites::Naive) else {
            panic!("{:?}", binding(2897, Rewrites::Naive));
        };
        assert!(buffers > 0);
        assert_eq!(binding(2897, Rewrites::Fused), Binding::Whole, "fused attention has no scores to hold");
    }
}

#[test]
fn scores_that_no_buffer_holds_are_refused_with_both_numbers_and_still_counted() {
    for (context, bytes) in [(8192, 4_294_967_296u64), (16_384, 17_179_869_184), (1 << 20, 70_368_744_177_664)] {
        let footprint = predict((1, 16, context), 1, Rewrites::Naive, &software());
        let largest = footprint.tape.tenants.iter().map(|tenant| tenant.elements * 4).max();
        assert_eq!(largest, Some(bytes));
        assert!(footprint.total().unwrap() > bytes);
        let Binding::Refused(refusal) = footprint.binding(None) else { panic!("{context} fits") };
        let refusal = refusal.to_string();
        assert!(refusal.contains(&bytes.to_string()) && refusal.contains("268435456"), "{refusal}");
    }
}

#[test]
fn what_64_bits_do_not_count_is_refused_in_words() {
    for (batch, expected) in
        [(1 << 18, "has more bytes than 64 bits count"), (1 << 20, "18446744073709551615 elements")]
    {
        let config = GptConfig::new(65, 1 << 20, 1, 16, 16).unwrap();
        let error = Footprint::predict(&spec(config, batch, Rewrites::Naive), Some(&software())).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn memory_that_there_is_not_refuses_a_run_with_both_numbers() {
    let footprint = predict((1, 4, 64), 1, Rewrites::Fused, &software());
    let total = footprint.total().unwrap();
    let limit = |bytes| Some(MemoryLimit { bytes, source: "by --memory-limit" });
    assert_eq!(footprint.binding(limit(total)), Binding::Whole);
    let Binding::Refused(refusal) = footprint.binding(limit(total - 1)) else { panic!("it fits") };
    assert_eq!(
        refusal.to_string(),
        format!("it needs {total} bytes in all and there are {} by --memory-limit", total - 1)
    );
}

#[test]
fn a_layer_keeps_64_mib_of_weights_or_64_kib_of_log_sum_exp_and_doubling_the_context_takes_4_and_2_times_as_much() {
    let largest = |context, rewrites, part: &str| {
        let footprint = predict((1, 4, context), 4, rewrites, &software());
        let tenants = footprint.tape.tenants.iter().filter(|tenant| tenant.name.contains(part));
        tenants.map(|tenant| tenant.elements * 4).max()
    };
    for (context, weights, log_sum_exp) in [(1024, 64 << 20, 64 << 10), (2048, 256 << 20, 128 << 10)] {
        assert_eq!(largest(context, Rewrites::Naive, "h.0.attn.scaled_masked_softmax"), Some(weights));
        assert_eq!(largest(context, Rewrites::Fused, "h.0.attn.attention#1"), Some(log_sum_exp));
    }
    let footprint = predict((1, 4, 1024), 4, Rewrites::Fused, &software());
    assert_eq!(footprint.bytes(Category::AttentionScores), 0);
    let footprint = predict((1, 4, 1024), 4, Rewrites::Naive, &software());
    assert_eq!(footprint.bytes(Category::LogSumExp), 0);
}

#[test]
fn the_ledger_lists_every_value_once_and_no_two_that_share_a_buffer_live_at_the_same_time() {
    for rewrites in [Rewrites::Naive, Rewrites::Fused] {
        for recompute in [Recompute::None, Recompute::Attention, Recompute::Block] {
            let config = GptConfig::new(65, 33, 3, 4, 32).unwrap();
            let spec = ProgramSpec { recompute, ..spec(config, 2, rewrites) };
            let footprint = Footprint::predict(&spec, Some(&software())).unwrap();
            let tape = &footprint.tape;
            for (segment, content) in tape.segments.iter().enumerate() {
                for (number, launch) in content.launches.iter().enumerate() {
                    for window in &launch.operands {
                        let living = tape.tenants.iter().filter(|tenant| tenant.buffer == window.buffer);
                        let living = living.filter(|tenant| {
                            tenant.lifetime.is_none_or(|lifetime| {
                                lifetime.segment == segment && (lifetime.first..=lifetime.last).contains(&number)
                            })
                        });
                        let names: Vec<&str> = living.map(|tenant| tenant.name.as_str()).collect();
                        assert_eq!(names.len(), 1, "{}: {names:?}", launch.label);
                    }
                }
            }
            for tenant in &tape.tenants {
                assert_eq!(tenant.shape.iter().product::<u64>(), tenant.elements, "{}", tenant.name);
                assert!(tenant.elements <= tape.buffers[tenant.buffer].elements, "{}", tenant.name);
            }
            let by_category: u64 = Category::ALL.iter().map(|&category| footprint.bytes(category)).sum();
            assert_eq!(footprint.total(), Some(by_category));
        }
    }
}

#[test]
fn what_is_computed_again_is_not_kept() {
    let bytes = |rewrites, recompute, category| {
        let config = GptConfig::new(65, 256, 4, 4, 32).unwrap();
        let spec = ProgramSpec { recompute, ..spec(config, 1, rewrites) };
        Footprint::predict(&spec, Some(&software())).unwrap().bytes(category)
    };
    let scores = |recompute| bytes(Rewrites::Naive, recompute, Category::AttentionScores);
    let one = 4 * 256 * 256 * 4;
    // Kept: the weights of four layers, beside two tensors that are at work. Again: the weights of one layer.
    assert_eq!(scores(Recompute::None), 6 * one);
    assert_eq!(scores(Recompute::Attention), 3 * one);
    assert_eq!(scores(Recompute::Block), 3 * one);
    for rewrites in [Rewrites::Naive, Rewrites::Fused] {
        let activations = |recompute| bytes(rewrites, recompute, Category::Activation);
        assert!(activations(Recompute::Block) * 3 < activations(Recompute::None));
        assert_eq!(activations(Recompute::Attention), activations(Recompute::None));
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

#[test]
fn what_is_computed_again_is_no_other_plan_to_a_run_that_goes_on() {
    let profile = software();
    for rewrites in [Rewrites::Naive, Rewrites::Fused] {
        let fingerprint = |recompute, heads| {
            let config = GptConfig::new(65, 32, 2, heads, 32).unwrap();
            let spec = ProgramSpec { recompute, ..spec(config, 1, rewrites) };
            Footprint::predict(&spec, Some(&profile)).unwrap().tape.fingerprint(Some(&profile))
        };
        let kept = fingerprint(Recompute::None, 4);
        for recompute in [Recompute::Attention, Recompute::Block] {
            assert_eq!(fingerprint(recompute, 4), kept);
        }
        assert_ne!(fingerprint(Recompute::None, 2), kept);
    }
}
