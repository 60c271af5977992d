//! Runs both forms of one attention, length by length, on the same inputs.

use std::sync::Arc;

use super::{Difference, Longest, Measured, Outcome, PredictedBytes, Refusal, Row, Side, Time};
use crate::bench::attention::{AttentionJob, AttentionJobError, AttentionPlan, AttentionSizes, AttentionSubject, Pass};
use crate::bench::timed_tape::TimedLaunches;
use crate::bench::timing::{Clock, Limits, Sample, Timed, Timing, TimingError, time_together};
use crate::gpu::Gpu;
use crate::graph::Reuse;
use crate::script::Tracer;
use crate::tape::{Allocation, Category, ExecutionError, available_for};

/// The two forms of an attention, and what they run on.
#[derive(Clone)]
pub struct Forms<'a> {
    pub naive: AttentionSubject,
    pub fused: AttentionSubject,
    pub batch: usize,
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Whether the gradients are computed as well.
    pub backward: bool,
    /// Of the inputs, and of the order in which samples are taken.
    pub seed: u64,
    /// Seconds that the samples of one form may take at one length, unless that is less than three runs.
    pub seconds: f64,
    /// `None` for the CPU executor.
    pub gpu: Option<Arc<Gpu>>,
    pub tracer: &'a dyn Tracer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Naive,
    Fused,
}

/// The longest context that is looked at when the longest that fits is searched.
const MOST: u64 = 1 << 20;

/// A plan and its bytes; a plan that cannot run here has bytes too.
struct Planned {
    predicted: Option<PredictedBytes>,
    plan: Result<AttentionPlan, Refusal>,
}

impl Planned {
    /// Takes its bytes from what memory is left, or is refused.
    fn take_from(&mut self, left: &mut u64) {
        let bytes = self.predicted.map_or(u64::MAX, |predicted| predicted.total);
        if self.plan.is_err() {
            return;
        }
        match left.checked_sub(bytes) {
            Some(rest) => *left = rest,
            None => self.plan = Err(Refusal::Memory { bytes, available: *left }),
        }
    }
}

/// One form, set up and run once, or refused.
struct SetUp {
    side: Side,
    job: Option<AttentionJob>,
}

impl Forms<'_> {
    /// Plans a form at one length, with the buffers that training would have: those that are done with are used again.
    ///
    /// # Errors
    /// A function that is wrong or refuses the sizes. What the adapter refuses is none.
    pub fn plan(&self, form: Form, context_length: u64) -> Result<AttentionPlan, AttentionJobError> {
        let subject = match form {
            Form::Naive => &self.naive,
            Form::Fused => &self.fused,
        };
        let (batch, heads, head_dim) = (self.batch, self.heads, self.head_dim);
        let context_length = usize::try_from(context_length).unwrap_or(usize::MAX);
        let sizes = AttentionSizes { batch, heads, context_length, head_dim };
        let profile = self.gpu.as_ref().map(|gpu| &gpu.profile);
        AttentionPlan::unchecked(subject, sizes, self.backward, Reuse::Pooled, profile, self.tracer)
    }

    fn planned(&self, form: Form, context_length: u64) -> Result<Planned, AttentionJobError> {
        let plan = match self.plan(form, context_length) {
            Ok(plan) => plan,
            Err(error) => {
                let refusal = Refusal::of(&error).ok_or(error)?;
                return Ok(Planned { predicted: None, plan: Err(refusal) });
            }
        };
        // What runs as written is the naive form under another name.
        if let (Form::Fused, Some(reason)) = (form, not_fused(&plan)) {
            return Ok(Planned { predicted: None, plan: Err(Refusal::NotFused(reason)) });
        }
        let profile = self.gpu.as_ref().map(|gpu| &gpu.profile);
        let predicted = predicted(&plan.allocations(profile.map(|profile| &profile.limits)));
        let checked = plan.tape.check(profile);
        Ok(Planned { predicted, plan: checked.map(|()| plan).map_err(|error| Refusal::from(&error)) })
    }

    /// Bytes that buffers may take.
    fn memory(&self) -> u64 {
        available_for(self.gpu.as_ref().map(|gpu| &gpu.profile)).unwrap_or(u64::MAX)
    }

    /// The longest context of a form that fits here, by planning alone.
    ///
    /// # Errors
    /// As [`Forms::compare_at`], but for what a device does.
    pub fn longest(&self, form: Form) -> Result<Longest, AttentionJobError> {
        let memory = self.memory();
        Longest::search(MOST, |context_length| {
            let mut planned = self.planned(form, context_length)?;
            planned.take_from(&mut memory.clone());
            Ok(planned.plan.err())
        })
    }

    /// Runs both forms at one length: bytes first, then results, then times, taken in turn. `stop` is asked between
    /// samples; `None` where it ended the row before both forms had a time.
    ///
    /// # Errors
    /// A device that fails. What does not fit is a refusal in the row.
    pub async fn compare_at(
        &self,
        context_length: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Row>, AttentionJobError> {
        let mut planned = [self.planned(Form::Naive, context_length)?, self.planned(Form::Fused, context_length)?];
        // Both are there at once; where memory is short, the one that takes less is to run.
        let mut left = self.memory();
        planned.iter_mut().rev().for_each(|planned| planned.take_from(&mut left));

        let [naive, fused] = planned;
        let mut naive = self.set_up(naive).await?;
        let mut fused = self.set_up(fused).await?;
        let differences = match (&naive.job, &fused.job) {
            (Some(naive), Some(fused)) => differences(naive, fused).await?,
            _ => Vec::new(),
        };
        let jobs: Vec<&AttentionJob> = [&naive.job, &fused.job].into_iter().flatten().collect();
        let Some(times) = self.times(&jobs, stop).await? else { return Ok(None) };
        let mut times = times.into_iter();
        for SetUp { side, job } in [&mut naive, &mut fused] {
            if let (Some(_), Outcome::Measured(measured)) = (job, &mut side.outcome) {
                measured.time = times.next().flatten();
            }
        }
        Ok(Some(Row { context_length, naive: naive.side, fused: fused.side, differences }))
    }

    async fn set_up(&self, planned: Planned) -> Result<SetUp, AttentionJobError> {
        let Planned { predicted, plan } = planned;
        let refused = |refusal| SetUp { side: Side { predicted, outcome: Outcome::Refused(refusal) }, job: None };
        let plan = match plan {
            Ok(plan) => plan,
            Err(refusal) => return Ok(refused(refusal)),
        };
        match AttentionJob::set_up(self.gpu.as_ref(), plan, self.seed).await {
            Ok(job) => {
                let measured = Measured { bytes: Some(job.allocated_bytes()), time: None };
                Ok(SetUp { side: Side { predicted, outcome: Outcome::Measured(measured) }, job: Some(job) })
            }
            Err(error) => Refusal::of(&error).map(refused).ok_or(error),
        }
    }

    /// Times jobs in turn, by one clock. A job without a time has `None`; so has the whole where it was interrupted.
    async fn times(
        &self,
        jobs: &[&AttentionJob],
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<Option<Time>>>, AttentionJobError> {
        let first = jobs.iter().map(|job| job.first_seconds()).fold(0.0, f64::max);
        let limits = limits(self.seconds, first);
        let pass = if self.backward { Pass::Both } else { Pass::Forward };
        let mut work: Vec<TimedLaunches<'_>> = jobs.iter().map(|job| job.pass(pass)).collect();
        let timings = time_together(&mut work, &limits, self.seed, stop).await;
        let clocks = || timings.iter().flatten().map(|timing| timing.clock);
        if clocks().any(|clock| clock != Clock::WallClock) && clocks().any(|clock| clock == Clock::WallClock) {
            let mut work: Vec<ByWallClock<'_>> = work.into_iter().map(ByWallClock).collect();
            return times(time_together(&mut work, &limits, self.seed, stop).await);
        }
        times(timings)
    }
}

fn times(
    timings: Vec<Result<Timing, TimingError<ExecutionError>>>,
) -> Result<Option<Vec<Option<Time>>>, AttentionJobError> {
    let mut times = Vec::new();
    for timing in timings {
        times.push(match timing {
            Ok(timing) => Some(Time::from(&timing)),
            Err(TimingError::NoClock) => None,
            Err(TimingError::Interrupted) => return Ok(None),
            Err(TimingError::Failed(error)) => return Err(error.into()),
        });
    }
    Ok(Some(times))
}

/// Work that the host's clock times even where the adapter has one.
struct ByWallClock<'a>(TimedLaunches<'a>);

impl Timed for ByWallClock<'_> {
    type Error = ExecutionError;

    async fn sample(&mut self, repetitions: u32, _: Clock) -> Result<Sample, ExecutionError> {
        self.0.sample(repetitions, Clock::WallClock).await
    }

    fn first_seconds(&self) -> f64 {
        self.0.first_seconds()
    }
}

/// Why a plan has no fused attention in it; `None` where it has.
pub fn not_fused(plan: &AttentionPlan) -> Option<String> {
    if plan.rewrites.iter().any(|report| report.outcome == Ok("attention")) {
        return None;
    }
    let reason = plan.rewrites.iter().find_map(|report| report.outcome.as_ref().err().cloned());
    Some(reason.unwrap_or_else(|| "there is no softmax to fuse".into()))
}

/// How often to run what took so many seconds the first time, compiling included: ten times and more, which makes an
/// interval, but where that took many times the time there is; then three times.
fn limits(seconds: f64, first: f64) -> Limits {
    let runs = if first > 0.0 { 4.0 * seconds / first } else { f64::INFINITY };
    let least = (runs as usize).clamp(3, 10);
    Limits { warm_up: 1, least, seconds, ..Limits::default() }
}

/// Bytes of the buffers of a plan; `None` where no u64 counts them.
fn predicted(allocations: &[Allocation]) -> Option<PredictedBytes> {
    let bytes = |wanted: Option<Category>| {
        let counted = allocations.iter().filter(|allocation| wanted.is_none_or(|wanted| allocation.category == wanted));
        counted.map(|allocation| allocation.bytes).try_fold(0u64, u64::checked_add)
    };
    Some(PredictedBytes {
        total: bytes(None)?,
        scores: bytes(Some(Category::AttentionScores))?,
        statistics: bytes(Some(Category::LogSumExp))?,
    })
}

/// How far the results of two jobs are apart, tensor by tensor.
async fn differences(naive: &AttentionJob, fused: &AttentionJob) -> Result<Vec<Difference>, ExecutionError> {
    let mut differences = vec![Difference::of("output", &naive.output().await?, &fused.output().await?)];
    let fused = fused.gradients().await?;
    for (name, of_naive) in naive.gradients().await? {
        // A gradient that only one of them has differs in its length.
        let of_fused = fused.iter().find(|(other, _)| *other == name).map_or(&[][..], |(_, values)| values);
        let tensor = match name.as_str() {
            "query" => "dq".into(),
            "key" => "dk".into(),
            "value" => "dv".into(),
            _ => format!("d.{name}"),
        };
        differences.push(Difference::of(&tensor, &of_naive, of_fused));
    }
    Ok(differences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare::disagreement;
    use crate::script::TraceHere;
    use crate::train::attention_choice::AttentionKind;

    fn forms(tracer: &TraceHere) -> Forms<'_> {
        Forms {
            naive: AttentionSubject::reference(AttentionKind::Naive),
            fused: AttentionSubject::reference(AttentionKind::Fused),
            batch: 2,
            heads: 3,
            head_dim: 8,
            backward: true,
            seed: 1,
            seconds: 0.01,
            gpu: None,
            tracer,
        }
    }

    fn row(forms: &Forms<'_>, context_length: u64) -> Row {
        pollster::block_on(forms.compare_at(context_length, &|| false)).unwrap().unwrap()
    }

    #[test]
    fn both_forms_take_what_was_predicted_and_agree() {
        let mut forms = forms(&TraceHere);
        for (backward, tensors) in [(true, &["output", "dq", "dk", "dv"][..]), (false, &["output"])] {
            forms.backward = backward;
            for context_length in [1, 24, 33] {
                let row = row(&forms, context_length);
                for side in [&row.naive, &row.fused] {
                    assert_eq!(side.measured().unwrap().bytes, side.predicted.map(|bytes| bytes.total), "{side:?}");
                    assert!(side.time().is_some(), "{side:?}");
                }
                let compared: Vec<&str> = row.differences.iter().map(|found| found.tensor.as_str()).collect();
                assert_eq!(compared, tensors);
                assert_eq!(disagreement(context_length, &row.differences), None);
                assert!(row.differences.iter().all(|found| found.against > 0.1 || context_length == 1), "{row:?}");
            }
        }
    }

    #[test]
    fn scores_grow_with_the_square_and_what_fused_keeps_with_the_length() {
        let forms = forms(&TraceHere);
        let bytes = |context_length| row(&forms, context_length).predicted().unwrap();
        let ((naive, fused), (longer_naive, longer_fused)) = (bytes(16), bytes(32));
        // 6 heads in all; scores, weights and a gradient at once.
        assert!(naive.scores > 0 && naive.scores.is_multiple_of(6 * 16 * 16 * 4), "{naive:?}");
        assert_eq!((longer_naive.scores, longer_fused.statistics), (4 * naive.scores, 2 * fused.statistics));
        assert_eq!((naive.statistics, fused.scores), (0, 0));
        assert!(fused.statistics > 0 && longer_fused.total < 2 * fused.total + 64, "{fused:?}");
    }

    #[test]
    fn a_length_at_which_a_function_is_not_fused_is_refused_and_not_compared_with_itself() {
        let mut forms = forms(&TraceHere);
        let of = |choice: &str| AttentionSubject::of(&choice.parse().unwrap()).unwrap();
        (forms.naive, forms.fused) = (of("builtin:window,naive"), of("builtin:window"));
        // A window of sixteen hides nothing from twelve positions.
        assert!(row(&forms, 12).fused.refusal().is_none());
        let row = row(&forms, 32);
        let Some(Refusal::NotFused(reason)) = row.fused.refusal() else { panic!("{row:?}") };
        assert!(reason.contains("the mask is not causal"), "{reason}");
        assert!(row.naive.refusal().is_none() && row.differences.is_empty());
    }

    #[test]
    fn different_functions_disagree() {
        let mut forms = forms(&TraceHere);
        forms.fused = AttentionSubject::of(&"builtin:bugs/no_scale".parse().unwrap()).unwrap();
        let row = row(&forms, 24);
        let error = disagreement(24, &row.differences).unwrap();
        assert!(error.starts_with("naive and fused disagree at T=24: output differs by up to "), "{error}");
    }

    #[test]
    fn a_stopped_row_is_none() {
        let forms = forms(&TraceHere);
        assert!(pollster::block_on(forms.compare_at(8, &|| true)).unwrap().is_none());
    }

    #[test]
    fn memory_goes_to_what_takes_less_and_a_refusal_says_what_was_left() {
        let forms = forms(&TraceHere);
        let planned = |form| forms.planned(form, 64).unwrap();
        let bytes = |planned: &Planned| planned.predicted.unwrap().total;
        let (mut naive, mut fused) = (planned(Form::Naive), planned(Form::Fused));
        let mut left = bytes(&fused) + 5;
        fused.take_from(&mut left);
        naive.take_from(&mut left);
        assert!(fused.plan.is_ok());
        let needed = bytes(&naive);
        assert_eq!(naive.plan.err(), Some(Refusal::Memory { bytes: needed, available: 5 }));
        assert_eq!(left, 5);
    }

    #[test]
    fn what_is_long_runs_three_times_and_what_is_short_ten_times_at_least() {
        for (first, least) in [(0.0, 10), (0.1, 10), (2.0, 6), (4.0, 3), (100.0, 3), (f64::NAN, 10)] {
            assert_eq!(limits(3.0, first).least, least, "{first}");
        }
    }
}
