//! The CPU executor: runs a tape by its kernels' twins.

use std::cell::RefCell;

use super::arithmetic::{Plain, Real};
use super::host_buffer::{HostBuffer, Operands};
use super::kernel::Kernel;
use super::launch::Launch;
use super::memory::available_bytes;
use super::plan::{BufferId, ElementKind, Tape, TapeBuffer, TapeError};

/// Buffers of a tape in host memory, stored as `S`.
pub struct CpuExecutor<S> {
    tape: Tape,
    buffers: Vec<RefCell<HostBuffer<S>>>,
}

/// So many zeros; `None` where the allocator refuses.
fn zeros<T: Clone + Default>(elements: u64) -> Option<Vec<T>> {
    let elements = usize::try_from(elements).ok()?;
    let mut values = Vec::new();
    values.try_reserve_exact(elements).ok()?;
    values.resize(elements, T::default());
    Some(values)
}

/// Storage types that a kernel has a twin for.
pub trait TwinStorage: Real {
    fn run(kernel: &Kernel, parameters: &dyn std::any::Any, operands: &Operands<'_, Self>);
}

impl TwinStorage for f32 {
    fn run(kernel: &Kernel, parameters: &dyn std::any::Any, operands: &Operands<'_, Self>) {
        (kernel.twin_f32)(parameters, operands);
    }
}

impl TwinStorage for f64 {
    fn run(kernel: &Kernel, parameters: &dyn std::any::Any, operands: &Operands<'_, Self>) {
        (kernel.twin_f64)(parameters, operands);
    }
}

impl TwinStorage for Plain {
    fn run(kernel: &Kernel, parameters: &dyn std::any::Any, operands: &Operands<'_, Self>) {
        (kernel.twin_plain)(parameters, operands);
    }
}

impl<S: TwinStorage> CpuExecutor<S> {
    /// Allocates the tape's buffers, all zero.
    ///
    /// # Errors
    /// [`TapeError::OutOfMemory`] before anything is allocated where the host says that it has less,
    /// [`TapeError::NotGranted`] where it refuses a buffer.
    pub fn new(tape: Tape) -> Result<Self, TapeError> {
        let element_bytes = std::mem::size_of::<S>() as u64;
        let of_buffer = |buffer: &TapeBuffer| buffer.host_elements().saturating_mul(element_bytes);
        let bytes = tape.buffers.iter().map(of_buffer).fold(0, u64::saturating_add);
        if let Some(available) = available_bytes().filter(|&available| available < bytes) {
            return Err(TapeError::OutOfMemory { bytes, available });
        }
        let mut buffers = Vec::with_capacity(tape.buffers.len());
        for buffer in &tape.buffers {
            let elements = buffer.host_elements();
            let refused = || TapeError::NotGranted { name: buffer.name.clone(), bytes: of_buffer(buffer) };
            buffers.push(RefCell::new(match buffer.kind {
                ElementKind::Real => HostBuffer::Real(zeros(elements).ok_or_else(refused)?),
                ElementKind::Words => HostBuffer::Words(zeros(elements).ok_or_else(refused)?),
            }));
        }
        Ok(Self { tape, buffers })
    }

    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// Bytes of host memory that the buffers take, as they are.
    pub fn allocated_bytes(&self) -> u64 {
        let bytes = |buffer: &RefCell<HostBuffer<S>>| match &*buffer.borrow() {
            HostBuffer::Real(values) => std::mem::size_of_val(&values[..]),
            HostBuffer::Words(words) => std::mem::size_of_val(&words[..]),
        };
        self.buffers.iter().map(|buffer| bytes(buffer) as u64).sum()
    }

    /// Runs one segment, launch by launch.
    pub fn run(&self, segment: usize) {
        for launch in &self.tape.segments[segment].launches {
            self.run_launch(launch);
        }
    }

    /// Runs one launch.
    pub fn run_launch(&self, launch: &Launch) {
        S::run(launch.kernel, launch.parameters.as_any(), &self.operands(launch));
    }

    fn operands(&self, launch: &Launch) -> Operands<'_, S> {
        let windows = launch
            .operands
            .iter()
            .map(|window| (&self.buffers[window.buffer], (window.offset / 4) as usize, (window.bytes / 4) as usize))
            .collect();
        Operands::new(windows)
    }

    /// Sets the first elements of a buffer.
    ///
    /// # Errors
    /// [`TapeError::WrongContents`] where the buffer holds words, or fewer elements.
    pub fn write(&self, buffer: BufferId, values: &[S]) -> Result<(), TapeError> {
        match &mut *self.buffers[buffer].borrow_mut() {
            HostBuffer::Real(stored) if values.len() <= stored.len() => {
                stored[..values.len()].copy_from_slice(values);
                Ok(())
            }
            _ => Err(self.wrong_contents(buffer, values.len())),
        }
    }

    /// Sets the first words of a buffer.
    ///
    /// # Errors
    /// [`TapeError::WrongContents`] where the buffer holds numbers, or fewer elements.
    pub fn write_words(&self, buffer: BufferId, words: &[u32]) -> Result<(), TapeError> {
        match &mut *self.buffers[buffer].borrow_mut() {
            HostBuffer::Words(stored) if words.len() <= stored.len() => {
                stored[..words.len()].copy_from_slice(words);
                Ok(())
            }
            _ => Err(self.wrong_contents(buffer, words.len())),
        }
    }

    /// The numbers of a buffer.
    ///
    /// # Errors
    /// [`TapeError::WrongContents`] where it holds words.
    pub fn read(&self, buffer: BufferId) -> Result<Vec<S>, TapeError> {
        match &*self.buffers[buffer].borrow() {
            HostBuffer::Real(values) => Ok(values[..self.tape.buffers[buffer].elements as usize].to_vec()),
            HostBuffer::Words(_) => Err(self.wrong_contents(buffer, 0)),
        }
    }

    /// The words of a buffer.
    ///
    /// # Errors
    /// [`TapeError::WrongContents`] where it holds numbers.
    pub fn read_words(&self, buffer: BufferId) -> Result<Vec<u32>, TapeError> {
        match &*self.buffers[buffer].borrow() {
            HostBuffer::Words(words) => Ok(words[..self.tape.buffers[buffer].elements as usize].to_vec()),
            HostBuffer::Real(_) => Err(self.wrong_contents(buffer, 0)),
        }
    }

    fn wrong_contents(&self, buffer: BufferId, given: usize) -> TapeError {
        let buffer = &self.tape.buffers[buffer];
        TapeError::WrongContents { name: buffer.name.clone(), elements: buffer.elements, given: given as u64 }
    }
}

impl CpuExecutor<f32> {
    /// How far each number that a launch is about to write may lie from its twin's where it is computed in f32: a vector
    /// for each written operand, in the kernel's order. 0 where the bits must be equal.
    pub fn error_bounds(&self, launch: &Launch) -> Vec<Vec<f64>> {
        let elements = |&operand: &usize| (launch.operands[operand].bytes / 4) as usize;
        let mut bounds: Vec<Vec<f64>> =
            launch.kernel.writes.iter().map(|operand| vec![0.0; elements(operand)]).collect();
        (launch.kernel.error_bounds)(launch.parameters.as_any(), &self.operands(launch), &mut bounds);
        // A device may take what is below the smallest normal number for 0.
        for bound in bounds.iter_mut().flatten().filter(|bound| **bound > 0.0) {
            *bound += f64::from(f32::MIN_POSITIVE);
        }
        bounds
    }
}
