//! Mutants: faults planted on purpose in the designs' texts. A fault that no parity case notices says that the cases
//! prove too little.

use std::sync::{Arc, OnceLock};

use super::parity::{Outcome, Reference, Worst, reference, run_case_with_source};
use crate::gpu::{AdapterKind, Gpu, Pipelines};
use crate::tape::{Case, DesignInfo, ExecutionError, Kernel, Mutant, MutantKind};

/// The cases of a kernel and what its twin makes of them: computed once, however many mutants are tried on them.
pub struct References {
    kernel: &'static Kernel,
    cases: Vec<(Case, OnceLock<Reference>)>,
}

impl References {
    pub fn of(kernel: &'static Kernel) -> Self {
        Self { kernel, cases: (kernel.cases)().into_iter().map(|case| (case, OnceLock::new())).collect() }
    }
}

/// One mutant of one design.
#[derive(Clone, Copy)]
pub struct Planted {
    pub kernel: &'static Kernel,
    pub design: DesignInfo,
    pub mutant: &'static Mutant,
}

impl Planted {
    /// The mutants of all designs of these kernels, in the order of the lists.
    pub fn all(kernels: &[&'static Kernel]) -> Vec<Self> {
        let of_design = |kernel: &'static Kernel, design: DesignInfo| {
            design.mutants.into_iter().map(move |mutant| Self { kernel, design, mutant })
        };
        let of_kernel = |&kernel: &&'static Kernel| {
            (kernel.designs)().into_iter().flat_map(move |design| of_design(kernel, design))
        };
        kernels.iter().flat_map(of_kernel).collect()
    }

    /// `attention_forward/tiled (barrier): the values are read before all are staged`
    pub fn name(&self) -> String {
        let Self { kernel, design, mutant } = self;
        format!("{}/{} ({}): {}", kernel.name, design.name, mutant.kind.word(), mutant.name)
    }

    /// Tries the cases that the design runs, until one notices.
    pub async fn judge(&self, gpu: &Arc<Gpu>, references: &References) -> Verdict {
        if let Err(reason) = self.mutant.can_show(&gpu.profile) {
            return Verdict::Hidden { reason };
        }
        match self.first_to_notice(gpu, references).await {
            Ok(Verdict::Survived { .. })
                if self.mutant.kind == MutantKind::Barrier && gpu.profile.kind == AdapterKind::Hardware =>
            {
                Verdict::Hidden { reason: "invocations that do not wait need not be late on hardware".into() }
            }
            Ok(verdict) => verdict,
            Err(reason) => Verdict::Broken { reason },
        }
    }

    async fn first_to_notice(&self, gpu: &Arc<Gpu>, references: &References) -> Result<Verdict, String> {
        let mut pipelines = Pipelines::default();
        let mut tried = 0;
        for (case, expected) in &references.cases {
            let parameters = case.parameters.as_any();
            if self.design.fits(parameters, &gpu.profile).is_err() {
                continue;
            }
            let source = self.design.mutated(parameters, self.mutant).map_err(|error| error.to_string())?;
            let failed = |error: ExecutionError| format!("[{}] {error}", case.name);
            if expected.get().is_none() {
                // Another thread may have been faster.
                let _ = expected.set(reference(references.kernel, case).map_err(failed)?);
            }
            let Some(expected) = expected.get() else { continue };
            let outcome =
                run_case_with_source(gpu, &mut pipelines, self.kernel, self.design, &source, case, expected).await;
            tried += 1;
            if let Outcome::Missed { worst, .. } = outcome.map_err(failed)? {
                return Ok(Verdict::Noticed { case: case.name.clone(), worst });
            }
        }
        Ok(if tried == 0 { Verdict::NotRun } else { Verdict::Survived { tried } })
    }
}

/// What became of a mutant.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The first case that noticed it, and its worst element.
    Noticed { case: String, worst: Worst },
    /// No case noticed it, of so many.
    Survived { tried: usize },
    /// It cannot show, or need not, on this adapter.
    Hidden { reason: String },
    /// The design runs on other adapters only.
    NotRun,
    /// It could not be tried, which proves nothing: its text is not found, or the shader does not compile.
    Broken { reason: String },
}

impl Verdict {
    /// Whether the cases fall short, or the mutant does.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Survived { .. } | Self::Broken { .. })
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Noticed { case, worst } => write!(formatter, "[{case}] {worst}"),
            Self::Survived { tried } => write!(formatter, "SURVIVED {tried} cases"),
            Self::Hidden { reason } => write!(formatter, "cannot show here: {reason}"),
            Self::NotRun => write!(formatter, "the design does not run on this adapter"),
            Self::Broken { reason } => write!(formatter, "BROKEN: {reason}"),
        }
    }
}

/// The table of mutants as text: design, kind, what is broken, and the first case that noticed it with its worst element.
pub struct Table {
    design: usize,
    name: usize,
}

const HEADING: [&str; 4] = ["kernel/design", "kind", "what is broken", "first case that noticed it, worst element"];

impl Table {
    /// Columns wide enough for these.
    pub fn of(mutants: &[Planted]) -> Self {
        let widest = |heading: usize, length: fn(&Planted) -> usize| {
            mutants.iter().map(length).fold(HEADING[heading].len(), usize::max)
        };
        Self {
            design: widest(0, |planted| planted.kernel.name.len() + 1 + planted.design.name.len()),
            name: widest(2, |planted| planted.mutant.name.len()),
        }
    }

    pub fn heading(&self) -> String {
        let [design, kind, name, verdict] = HEADING;
        self.line(design, kind, name, verdict)
    }

    pub fn row(&self, planted: &Planted, verdict: &Verdict) -> String {
        let design = format!("{}/{}", planted.kernel.name, planted.design.name);
        self.line(&design, planted.mutant.kind.word(), planted.mutant.name, &verdict.to_string())
    }

    fn line(&self, design: &str, kind: &str, name: &str, verdict: &str) -> String {
        format!("{design:<0$}  {kind:<11}  {name:<1$}  {verdict}", self.design, self.name)
    }
}

/// How many of each verdict there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub noticed: usize,
    pub survived: usize,
    pub hidden: usize,
    pub not_run: usize,
}

impl Tally {
    pub fn add(&mut self, verdict: &Verdict) {
        *match verdict {
            Verdict::Noticed { .. } => &mut self.noticed,
            Verdict::Survived { .. } | Verdict::Broken { .. } => &mut self.survived,
            Verdict::Hidden { .. } => &mut self.hidden,
            Verdict::NotRun => &mut self.not_run,
        } += 1;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { noticed, survived, hidden, not_run } = self;
        write!(
            formatter,
            "{noticed} mutants noticed, {survived} survived, {hidden} cannot show on this adapter, {not_run} not run by \
             their design here"
        )
    }
}
