//! Buffers of the CPU executor, and how a twin reaches them.

use std::cell::{Ref, RefCell, RefMut};

use super::arithmetic::Real;

/// The contents of one buffer: numbers, or whole words (token ids, targets, flags).
#[derive(Clone, Debug, PartialEq)]
pub enum HostBuffer<S> {
    Real(Vec<S>),
    Words(Vec<u32>),
}

impl<S> HostBuffer<S> {
    /// Elements, of either kind.
    pub fn len(&self) -> usize {
        match self {
            Self::Real(values) => values.len(),
            Self::Words(words) => words.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The storage bindings of one launch, in the shader's order: operand 0 is `@binding(1)`.
pub struct Operands<'a, S> {
    /// (buffer, first element, elements)
    windows: Vec<(&'a RefCell<HostBuffer<S>>, usize, usize)>,
}

#[expect(clippy::panic, reason = "only a mistake in a kernel's own launch can cause it")]
impl<'a, S: Real> Operands<'a, S> {
    /// Windows in elements; an operand that is declared with the wrong element kind panics when a twin reaches for it,
    /// which only a mistake in a kernel's own launch can cause.
    pub fn new(windows: Vec<(&'a RefCell<HostBuffer<S>>, usize, usize)>) -> Self {
        Self { windows }
    }

    /// A copy of every binding with the absolute values of its numbers; those of `cleared` are 0.
    pub(super) fn magnitudes(&self, cleared: &[usize]) -> Vec<RefCell<HostBuffer<f64>>> {
        let copy =
            |operand: usize, &(cell, first, count): &(&RefCell<HostBuffer<S>>, usize, usize)| match &*cell.borrow() {
                HostBuffer::Real(_) if cleared.contains(&operand) => HostBuffer::Real(vec![0.0; count]),
                HostBuffer::Real(values) => HostBuffer::Real(
                    values[first..first + count].iter().map(|value| value.wide().into().abs()).collect(),
                ),
                HostBuffer::Words(words) => HostBuffer::Words(words[first..first + count].to_vec()),
            };
        self.windows.iter().enumerate().map(|(operand, window)| RefCell::new(copy(operand, window))).collect()
    }

    /// Numbers of a binding that is read.
    pub fn real(&self, operand: usize) -> Ref<'a, [S]> {
        let (cell, first, count) = self.windows[operand];
        Ref::map(cell.borrow(), |buffer| match buffer {
            HostBuffer::Real(values) => &values[first..first + count],
            HostBuffer::Words(_) => panic!("operand {operand} holds words, numbers were expected"),
        })
    }

    /// Numbers of a binding that is written.
    pub fn real_mut(&self, operand: usize) -> RefMut<'a, [S]> {
        let (cell, first, count) = self.windows[operand];
        RefMut::map(cell.borrow_mut(), |buffer| match buffer {
            HostBuffer::Real(values) => &mut values[first..first + count],
            HostBuffer::Words(_) => panic!("operand {operand} holds words, numbers were expected"),
        })
    }

    /// Words of a binding that is read.
    pub fn words(&self, operand: usize) -> Ref<'a, [u32]> {
        let (cell, first, count) = self.windows[operand];
        Ref::map(cell.borrow(), |buffer| match buffer {
            HostBuffer::Words(values) => &values[first..first + count],
            HostBuffer::Real(_) => panic!("operand {operand} holds numbers, words were expected"),
        })
    }

    /// Words of a binding that is written.
    pub fn words_mut(&self, operand: usize) -> RefMut<'a, [u32]> {
        let (cell, first, count) = self.windows[operand];
        RefMut::map(cell.borrow_mut(), |buffer| match buffer {
            HostBuffer::Words(values) => &mut values[first..first + count],
            HostBuffer::Real(_) => panic!("operand {operand} holds numbers, words were expected"),
        })
    }
}
