//! Buffers of the CPU executor, and how a twin reaches them.

use std::cell::{Ref, RefCell, RefMut};

use super::arithmetic::Real;

/// The contents of one buffer: numbers, or whole words (token ids, targets, flags).
#[derive(Clone, Debug, PartialEq)]
pub enum HostBuffer<S> {
    Real(Vec<S>),
    Words(Vec<u32>),
}

/// The storage bindings of one launch, in the shader's order: operand 0 is `@binding(1)`.
pub struct Operands<'a, S> {
    /// (buffer, first element, elements)
    windows: Vec<(&'a RefCell<HostBuffer<S>>, usize, usize)>,
}

impl<'a, S: Real> Operands<'a, S> {
    /// Windows in elements; an operand that is declared with the wrong element kind panics when a twin reaches for it,
    /// which only a mistake in a kernel's own launch can cause.
    pub fn new(windows: Vec<(&'a RefCell<HostBuffer<S>>, usize, usize)>) -> Self {
        Self { windows }
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
