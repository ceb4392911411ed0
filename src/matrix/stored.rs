//! Elements that lie one behind the other, as they are stored, read as the type that kernels compute
//! on.

use crate::memory;
use std::ops::Range;

use super::view::Scratch;
use super::{Bits, Mask, Number, Reader};

/// Elements, and which of them are null.
#[derive(Clone, Copy)]
pub(super) struct Slice<'a, T: 'static> {
    pub(super) bytes: &'a [u8],
    pub(super) reader: Reader<T>,
    pub(super) nulls: Option<Bits<'a>>,
}

impl<'a, T: Number> Slice<'a, T> {
    /// The elements themselves, if they are stored as `T`.
    #[inline(always)]
    pub(super) fn values(&self) -> Option<&'a [T]> {
        self.reader.is_same.then(|| pulp::bytemuck::cast_slice(self.bytes))
    }

    /// Writes the elements `range` to `out`.
    pub(super) fn read(&self, range: Range<usize>, out: &mut [T]) {
        match self.values() {
            Some(values) => out.copy_from_slice(&values[range]),
            None => {
                let size = self.reader.size;
                self.reader.read(&self.bytes[range.start * size..range.end * size], out);
            }
        }
    }

    pub(super) fn get(&self, i: usize) -> T {
        let mut one = [T::default()];
        self.read(i..i + 1, &mut one);
        one[0]
    }

    /// The bytes in which the elements from `first` on lie, `elements` of them if there are so many.
    pub(super) fn stored(&self, first: usize, elements: usize) -> &'a [u8] {
        let (start, len) = (first * self.reader.size, elements * self.reader.size);
        let rest = self.bytes.get(start..).unwrap_or(&[]);
        &rest[..len.min(rest.len())]
    }

    /// The elements `range`, nulls and all: themselves, or a copy in `scratch`.
    #[inline(always)]
    pub(super) fn raw<'s>(&'s self, range: Range<usize>, scratch: &'s mut Scratch<T>) -> &'s [T] {
        match self.values() {
            Some(values) => &values[range],
            None => {
                memory::resize(scratch, range.len(), T::default());
                self.read(range, scratch);
                scratch
            }
        }
    }

    /// The elements `range` with `fill` in place of nulls: themselves if none is null, or a copy
    /// in `scratch`.
    pub(super) fn filled<'s>(
        &'s self,
        mask: &Mask<'_>,
        range: Range<usize>,
        fill: T,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T] {
        if mask.all(range.clone()) {
            return self.raw(range, scratch);
        }
        // What it held is overwritten.
        memory::resize(scratch, range.len(), fill);
        self.fill_into(mask, range, fill, scratch);
        scratch
    }

    /// The same with a copy in `held`, which is long enough.
    pub(super) fn filled_into<'s>(
        &'s self,
        mask: &Mask<'_>,
        range: Range<usize>,
        fill: T,
        held: &'s mut [T],
    ) -> &'s [T] {
        if let Some(values) = self.values()
            && mask.all(range.clone())
        {
            return &values[range];
        }
        let held = &mut held[..range.len()];
        self.fill_into(mask, range, fill, held);
        held
    }

    /// Writes the elements `range` to `out`, with `fill` in place of nulls.
    pub(super) fn fill_into(&self, mask: &Mask<'_>, range: Range<usize>, fill: T, out: &mut [T]) {
        match self.values() {
            Some(values) => mask.copy(range.clone(), &values[range], fill, out),
            None => {
                self.read(range.clone(), out);
                mask.fill(range, fill, out);
            }
        }
    }
}
