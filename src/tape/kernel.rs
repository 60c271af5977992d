//! What a kernel is to the tape: a name, its designs, its twin and its cost.

use std::any::Any;

use super::arithmetic::{Plain, Real};
use super::case::Case;
use super::host_buffer::Operands;
use super::mutant::{Mutant, Mutants};
use super::parameters::{FieldLayout, KernelParameters};
use crate::gpu::{AdapterKind, Constant, Piece, Profile, ShaderError, ShaderSource, Target};

/// Arithmetic operations and bytes that a launch must at least do and move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub flops: u64,
    pub bytes: u64,
}

/// The adapters a design was made for. It stays correct on every adapter that has what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    Any,
    Only(AdapterKind),
}

/// One WGSL implementation of a kernel. Designs are listed in order of preference.
pub struct Design<P: 'static> {
    pub name: &'static str,
    /// The file under `shaders/`.
    pub file: &'static str,
    /// The file's text (`include_str!`).
    pub text: &'static str,
    pub pieces: &'static [&'static Piece],
    pub preference: Preference,
    /// The subgroup width that every subgroup must have, for designs written for one.
    pub subgroup_width: Option<u32>,
    /// `Err` says what shape or layout the design cannot do.
    pub supports: fn(&P) -> Result<(), String>,
    /// Values of named constants: tile sizes and classes, never a model's sizes.
    pub constants: fn(&P) -> Vec<Constant>,
    /// WGSL text put before the file, for templates; empty for most.
    pub generated: fn(&P) -> String,
    pub workgroups: fn(&P) -> [u64; 3],
    /// Several lists, so that designs which share a text can share its mutants.
    pub mutants: &'static [&'static [Mutant]],
}

/// What a kernel's file defines. [`Kernel::of`] turns it into a row of the kernel list.
pub trait KernelDefinition: 'static {
    type Parameters: KernelParameters;
    const NAME: &'static str;
    /// Operands that are written, by number; all others are only read. Compared with the shaders' access modes.
    const WRITES: &'static [usize];

    fn designs() -> &'static [Design<Self::Parameters>];
    /// The textbook formula over whatever the buffers store, computed in `S::Wide`: f64, or f32 for [`Plain`].
    fn twin<S: Real>(parameters: &Self::Parameters, operands: &Operands<'_, S>);
    /// How far each written number may lie from the twin's where a design computes it in f32: a vector for each of
    /// `WRITES`, in its order, an element for each of the operand's. All begin as 0, and stay so where a number is moved
    /// or picked, not computed, and where nothing is written. `operands` are as before the launch.
    ///
    /// See [`super::rounding`] for what bounds are made of. They must hold for any sizes and contents, and be so tight that
    /// results off by one in a thousand break them.
    fn error_bounds(_parameters: &Self::Parameters, _operands: &Operands<'_, f32>, _bounds: &mut [Vec<f64>]) {}
    fn cost(parameters: &Self::Parameters) -> Cost;
    /// The launches on which every design must equal the twin, element by element.
    fn cases() -> Vec<Case>;
}

/// A kernel of the list, with its types erased.
pub struct Kernel {
    pub name: &'static str,
    pub fields: &'static [FieldLayout],
    pub device_bytes: usize,
    pub writes: &'static [usize],
    pub twin_f32: fn(&dyn Any, &Operands<'_, f32>),
    pub twin_f64: fn(&dyn Any, &Operands<'_, f64>),
    pub twin_plain: fn(&dyn Any, &Operands<'_, Plain>),
    /// See [`KernelDefinition::error_bounds`].
    pub error_bounds: fn(&dyn Any, &Operands<'_, f32>, &mut [Vec<f64>]),
    pub cost: fn(&dyn Any) -> Cost,
    pub designs: fn() -> Vec<DesignInfo>,
    pub cases: fn() -> Vec<Case>,
}

/// A design with its types erased.
#[derive(Clone, Copy)]
pub struct DesignInfo {
    pub name: &'static str,
    pub file: &'static str,
    pub text: &'static str,
    pub pieces: &'static [&'static Piece],
    pub preference: Preference,
    pub subgroup_width: Option<u32>,
    pub mutants: Mutants,
    design: &'static (dyn Any + Send + Sync),
    supports: fn(&(dyn Any + Send + Sync), &dyn Any) -> Result<(), String>,
    constants: fn(&(dyn Any + Send + Sync), &dyn Any) -> Vec<Constant>,
    generated: fn(&(dyn Any + Send + Sync), &dyn Any) -> String,
    workgroups: fn(&(dyn Any + Send + Sync), &dyn Any) -> [u64; 3],
}

#[expect(clippy::expect_used, reason = "only a mistake in a kernel's own file can cause it")]
fn parameters<P: 'static>(any: &dyn Any) -> &P {
    any.downcast_ref().expect("a launch carries the parameters of its own kernel")
}

#[expect(clippy::expect_used, reason = "only a mistake in a kernel's own file can cause it")]
fn design<P: 'static>(any: &(dyn Any + Send + Sync)) -> &Design<P> {
    any.downcast_ref().expect("a design is kept with its own kernel")
}

impl Kernel {
    /// The row of the kernel list for a definition.
    pub const fn of<K: KernelDefinition>() -> Self {
        Self {
            name: K::NAME,
            fields: K::Parameters::FIELDS,
            device_bytes: K::Parameters::DEVICE_BYTES,
            writes: K::WRITES,
            twin_f32: |any, operands| K::twin(parameters(any), operands),
            twin_f64: |any, operands| K::twin(parameters(any), operands),
            twin_plain: |any, operands| K::twin(parameters(any), operands),
            error_bounds: |any, operands, bounds| K::error_bounds(parameters(any), operands, bounds),
            cost: |any| K::cost(parameters(any)),
            designs: || K::designs().iter().map(DesignInfo::of).collect(),
            cases: K::cases,
        }
    }

    /// The designs that can run these parameters on this adapter, in order of preference; with each that cannot, why.
    pub fn candidates(&self, parameters: &dyn Any, profile: &Profile) -> Vec<(DesignInfo, Result<(), String>)> {
        (self.designs)().into_iter().map(|design| (design, design.fits(parameters, profile))).collect()
    }

    /// The design a plan takes: the first that fits and was made for this kind of adapter, else the first that fits. On
    /// a software adapter one made for hardware is never taken: it would be slow there, and only there do long loops end
    /// early without a word.
    pub fn choose(&self, parameters: &dyn Any, profile: &Profile) -> Option<DesignInfo> {
        let fitting: Vec<DesignInfo> = self
            .candidates(parameters, profile)
            .into_iter()
            .filter_map(|(design, fits)| fits.is_ok().then_some(design))
            .collect();
        let preferred = |design: &&DesignInfo| match design.preference {
            Preference::Any => true,
            Preference::Only(kind) => kind == profile.kind,
        };
        let possible = |_: &&DesignInfo| profile.kind == AdapterKind::Hardware;
        fitting.iter().find(preferred).or(fitting.iter().find(possible)).copied()
    }
}

impl DesignInfo {
    fn of<P: KernelParameters>(row: &'static Design<P>) -> Self {
        Self {
            name: row.name,
            file: row.file,
            text: row.text,
            pieces: row.pieces,
            preference: row.preference,
            subgroup_width: row.subgroup_width,
            mutants: Mutants(row.mutants),
            design: row,
            supports: |row, any| (design::<P>(row).supports)(parameters(any)),
            constants: |row, any| (design::<P>(row).constants)(parameters(any)),
            generated: |row, any| (design::<P>(row).generated)(parameters(any)),
            workgroups: |row, any| (design::<P>(row).workgroups)(parameters(any)),
        }
    }

    /// Whether this design runs these parameters on this adapter, and if not, why.
    ///
    /// # Errors
    /// The reason in words.
    pub fn fits(&self, parameters: &dyn Any, profile: &Profile) -> Result<(), String> {
        if let Some(width) = self.subgroup_width {
            match profile.fixed_subgroup_width() {
                Some(found) if found == width => {}
                Some(found) => return Err(format!("needs subgroups of {width}, this adapter has {found}")),
                None => return Err(format!("needs subgroups of exactly {width}")),
            }
        }
        (self.supports)(self.design, parameters)
    }

    /// Workgroups in x, y and z, before they are folded to what a dispatch may count.
    pub fn workgroups(&self, parameters: &dyn Any) -> [u64; 3] {
        (self.workgroups)(self.design, parameters)
    }

    /// The shader text for these parameters.
    ///
    /// # Errors
    /// A constant that the text does not declare.
    pub fn source(&self, parameters: &dyn Any, target: Target) -> Result<ShaderSource, ShaderError> {
        self.assemble(parameters, target, self.text, self.pieces)
    }

    /// The shader text with one fault planted in it.
    ///
    /// # Errors
    /// [`ShaderError::Malformed`] where the mutant's text is not found exactly once.
    pub fn mutated(&self, parameters: &dyn Any, mutant: &Mutant) -> Result<ShaderSource, ShaderError> {
        let whole = self.source(parameters, Target::Native)?;
        let found = whole.text.matches(mutant.original).count();
        if found != 1 {
            let message = format!("mutant '{}' finds its text {found} times, needs exactly one", mutant.name);
            return Err(ShaderError::Malformed { file: self.file.into(), message });
        }
        let text = whole.text.replace(mutant.original, mutant.replacement);
        ShaderSource::assemble(self.file, &text, &[], "", &[], false, Target::Native)
    }

    fn assemble(
        &self,
        parameters: &dyn Any,
        target: Target,
        text: &str,
        pieces: &[&Piece],
    ) -> Result<ShaderSource, ShaderError> {
        let generated = (self.generated)(self.design, parameters);
        let constants = (self.constants)(self.design, parameters);
        let subgroups = self.subgroup_width.is_some();
        ShaderSource::assemble(self.file, text, pieces, &generated, &constants, subgroups, target)
    }
}
