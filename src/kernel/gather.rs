//! Rows by index, copied one after the other.

use super::{Body, Element, Simd};
use crate::memory;

/// Rows that are fetched before they are copied: by then they have come from memory, in whatever
/// order they lie.
const AHEAD: usize = 12;

/// Adds to `out` the rows of `x`, of `width` elements each, that `indices` name.
pub(crate) struct GatherRows<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) width: usize,
    pub(crate) indices: &'a [u32],
    pub(crate) out: &'a mut Vec<T>,
}

impl<T: Element> Body for GatherRows<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { x, width, indices, out } = self;
        let line = 64 / std::mem::size_of::<T>();
        let fetch = |row: u32| {
            // The prefetchers of the machine see a run after two lines.
            let first = row as usize * width;
            simd.fetch(x, first);
            if width > line {
                simd.fetch(x, first + line);
                simd.fetch(x, first + width - 1);
            }
        };
        indices.iter().take(AHEAD).for_each(|row| fetch(*row));
        for (i, row) in indices.iter().enumerate() {
            if let Some(row) = indices.get(i + AHEAD) {
                fetch(*row);
            }
            let at = *row as usize * width;
            memory::extend_from_slice(out, &x[at..at + width]);
        }
    }
}
