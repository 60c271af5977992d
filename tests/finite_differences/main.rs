//! Every op's gradient rule against finite differences in f64, through the planned tape: alone in many shapes and
//! layouts, on top of every other op, in random graphs, and in attention files.
//!
//! Inputs are drawn from what each op states of its domain (`Op::domain`). A few graphs run on the adapter too.

mod adapter;
mod attention_files;
#[path = "../attention_functions/mod.rs"]
mod attention_functions;
mod case;
mod cases;
mod compare;
mod coverage;
mod dags;
#[path = "../device/mod.rs"]
mod device;
mod directional;
mod draw;
mod faults;
mod problem;
mod rewrites;
mod stages;
mod statements;
mod weave;

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::{Arguments, Failed, Trial};

type Check = fn() -> Result<(), String>;

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let checks: [(&str, Check); 18] = [
        ("gradients of every op equal central differences", every_case),
        ("every op is in a case", coverage::every_op_is_in_a_case),
        ("every op may feed every other", dags::every_op_may_feed_every_other),
        ("every random graph has its gradient", dags::every_random_graph_has_its_gradient),
        ("a stated edge or kink is one", statements::a_stated_edge_is_one),
        ("what has no gradient says why", statements::what_has_no_gradient_says_why),
        (
            "what is not taken reaches neither result nor gradient",
            statements::what_is_not_taken_reaches_neither_result_nor_gradient,
        ),
        ("ids that lie in no order are refused", statements::ids_that_lie_in_no_order_are_refused),
        (
            "a gradient of any op that is one percent off is noticed",
            faults::a_gradient_of_any_op_that_is_one_percent_off_is_noticed,
        ),
        (
            "one percent too much anywhere in a graph is noticed",
            faults::one_percent_too_much_anywhere_in_a_graph_is_noticed,
        ),
        (
            "a term that is missing where a value is used twice is noticed",
            faults::a_term_that_is_missing_where_a_value_is_used_twice_is_noticed,
        ),
        ("a domain that an op does not have is noticed", faults::a_domain_that_an_op_does_not_have_is_noticed),
        ("other bits are noticed", faults::other_bits_are_noticed),
        ("a kink that is none is noticed", faults::a_kink_that_is_none_is_noticed),
        (
            "fused and naive gradients of the same attention agree",
            rewrites::fused_and_naive_gradients_of_the_same_attention_agree,
        ),
        (
            "gradients of every attention file equal central differences",
            attention_files::gradients_of_every_attention_file_equal_central_differences,
        ),
        (
            "fused and naive gradients of every attention file agree",
            attention_files::fused_and_naive_gradients_of_every_attention_file_agree,
        ),
        ("every op of scripts is in an attention file", attention_files::every_op_of_scripts_is_in_an_attention_file),
    ];
    let mut trials: Vec<Trial> =
        checks.into_iter().map(|(name, check)| Trial::test(name, move || check().map_err(Failed::from))).collect();
    let missing = gpu.is_none();
    let on_device = move || match &gpu {
        Some(gpu) => adapter::random_graphs_have_the_same_gradients(gpu).map_err(Failed::from),
        None => Err("there is no adapter".into()),
    };
    trials.push(
        Trial::test("random graphs have the same gradients on this adapter", on_device).with_ignored_flag(missing),
    );
    libtest_mimic::run(&arguments, trials).exit();
}

fn every_case() -> Result<(), String> {
    let mut names = BTreeSet::new();
    let mut slopes: BTreeMap<String, f64> = BTreeMap::new();
    for case in cases::every() {
        let largest = compare::check(&case, &case.problem()?)?;
        let slope = slopes.entry(case.op().into()).or_default();
        *slope = slope.max(largest);
        if !names.insert(case.name.clone()) {
            return Err(format!("{} is there twice", case.name));
        }
    }
    // A difference of nothing would agree with any rule that gives nothing.
    let flat: Vec<&String> = slopes.iter().filter(|&(_, &slope)| slope == 0.0).map(|(op, _)| op).collect();
    if flat == faults::FLAT { Ok(()) } else { Err(format!("no slope in any case of {flat:?}")) }
}
