//! Rows whose elements do not lie one behind the other: strided and masked arrays, and list
//! columns whose null rows have no elements.
//!
//! They are read a tile at a time, into scratch that stays in L1; nothing of the size of the input
//! is ever copied. So a broadcast array costs no memory, whatever its shape.

use std::ops::Range;

use arrow_buffer::{Buffer, ScalarBuffer};
use pulp::bytemuck;

use super::{Bits, Column, Number, Reader};
use crate::error::{Error, Result};

/// Where the elements of such rows are.
#[derive(Clone, Debug)]
pub(crate) enum Scattered {
    /// At any strides. The mask is not 0 where an element is null.
    Strided { values: Strided, mask: Option<Strided> },
    /// Each row from its own offset on. A null row may have no elements, or fewer or more than the
    /// others; its elements are never read.
    Lists { column: Column, offsets: Offsets },
}

/// Elements at any strides, in bytes, as NumPy has them.
#[derive(Clone, Debug)]
pub(crate) struct Strided {
    /// All bytes from the lowest element to the end of the highest.
    memory: Buffer,
    /// The byte of the first element of the first row.
    start: usize,
    down: isize,
    across: isize,
    width: usize,
    size: usize,
}

/// Bytes from the first element of an array to its lowest, and to the end of its highest;
/// `None` if that overflows, or if there are no elements.
pub(crate) fn span(shape: [usize; 2], strides: [isize; 2], size: usize) -> Option<(isize, isize)> {
    let mut low = 0isize;
    let mut high = isize::try_from(size).ok()?;
    for (len, stride) in shape.into_iter().zip(strides) {
        let last = isize::try_from(len.checked_sub(1)?).ok()?.checked_mul(stride)?;
        (low, high) = (low.checked_add(last.min(0))?, high.checked_add(last.max(0))?);
    }
    Some((low, high))
}

impl Strided {
    /// Elements of `size` bytes in `memory`, which holds the [`span`] of shape and strides.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if shape, strides and memory do not fit each other.
    pub(crate) fn new(
        memory: Buffer,
        [rows, width]: [usize; 2],
        [down, across]: [isize; 2],
        size: usize,
    ) -> Result<Self> {
        let fits = span([rows, width], [down, across], size)
            .filter(|(low, high)| high.checked_sub(*low) == isize::try_from(memory.len()).ok());
        let (Some((low, _)), 1 | 2 | 4 | 8) = (fits, size) else {
            let limit = "the memory behind an array with such strides";
            return Err(Error::TooLarge { rows, width, limit });
        };
        Ok(Self { memory, start: low.unsigned_abs(), down, across, width, size })
    }

    /// The elements of a column of `len` rows, as one row.
    pub(super) fn as_row(&self, len: usize) -> Self {
        Self { down: 0, across: self.down, width: len, ..self.clone() }
    }

    /// The elements from a row on.
    pub(super) fn after(&self, row: usize) -> Self {
        let skipped = (row as isize).wrapping_mul(self.down);
        Self { start: self.start.wrapping_add_signed(skipped), ..self.clone() }
    }

    /// The byte of an element, which is inside the memory by what `new` saw.
    #[inline(always)]
    fn at(&self, row: usize, column: usize) -> usize {
        let along = (row as isize).wrapping_mul(self.down);
        let along = along.wrapping_add((column as isize).wrapping_mul(self.across));
        self.start.wrapping_add_signed(along)
    }

    /// Writes the bytes of the elements from number `from` on, counted row by row, to `out`.
    pub(super) fn gather(&self, from: usize, out: &mut [u8]) {
        match self.size {
            1 => self.gather_sized::<1>(from, out),
            2 => self.gather_sized::<2>(from, out),
            4 => self.gather_sized::<4>(from, out),
            _ => self.gather_sized::<8>(from, out),
        }
    }

    fn gather_sized<const SIZE: usize>(&self, from: usize, out: &mut [u8]) {
        let (mut row, mut column) = (from / self.width, from % self.width);
        // Rows that follow one another at the stride of their elements are one run.
        let is_one_run = self.down == (self.width as isize).wrapping_mul(self.across);
        let mut left = out.as_chunks_mut::<SIZE>().0;
        while !left.is_empty() {
            let run = if is_one_run { left.len() } else { left.len().min(self.width - column) };
            let (now, rest) = left.split_at_mut(run);
            let mut at = self.at(row, column);
            if self.across == SIZE as isize {
                now.as_flattened_mut().copy_from_slice(&self.memory[at..at + run * SIZE]);
            } else {
                for element in now {
                    element.copy_from_slice(&self.memory[at..at + SIZE]);
                    at = at.wrapping_add_signed(self.across);
                }
            }
            (left, row, column) = (rest, row + 1, 0);
        }
    }

    fn byte(&self, row: usize, column: usize) -> u8 {
        self.memory[self.at(row, column)]
    }
}

/// The offsets of a list column: one more than it has rows.
#[derive(Clone, Debug)]
pub(crate) enum Offsets {
    Small(ScalarBuffer<i32>),
    Large(ScalarBuffer<i64>),
}

impl Offsets {
    /// The element that a row begins with. Offsets are not negative (Arrow arrays see to that).
    #[inline(always)]
    pub(crate) fn start(&self, row: usize) -> usize {
        match self {
            Self::Small(offsets) => offsets[row] as usize,
            Self::Large(offsets) => offsets[row] as usize,
        }
    }
}

impl Scattered {
    /// Whether any element may be null.
    pub(crate) fn may_have_nulls(&self) -> bool {
        match self {
            Self::Strided { mask, .. } => mask.is_some(),
            Self::Lists { column, .. } => column.nulls.is_some(),
        }
    }

    /// Whether an element of a valid row is valid.
    pub(crate) fn is_valid(&self, row: usize, column: usize) -> bool {
        match self {
            Self::Strided { mask, .. } => mask.as_ref().is_none_or(|m| m.byte(row, column) == 0),
            Self::Lists { column: elements, offsets } => {
                let nulls = elements.nulls.as_ref().map(Bits::new);
                nulls.is_none_or(|nulls| nulls.get(offsets.start(row) + column))
            }
        }
    }

    /// How many of the elements `columns` of a valid row are valid.
    pub(crate) fn count(&self, row: usize, columns: Range<usize>) -> usize {
        match self {
            Self::Lists { column, offsets } => match &column.nulls {
                None => columns.len(),
                Some(nulls) => {
                    let first = offsets.start(row);
                    Bits::new(nulls).count(first + columns.start..first + columns.end)
                }
            },
            Self::Strided { mask: None, .. } => columns.len(),
            Self::Strided { mask: Some(mask), .. } => {
                columns.filter(|column| mask.byte(row, *column) == 0).count()
            }
        }
    }

    /// Whether every element `columns` of `rows`, all of them valid rows, is valid.
    pub(crate) fn all_valid(&self, rows: Range<usize>, columns: Range<usize>) -> bool {
        !self.may_have_nulls()
            || rows.into_iter().all(|row| {
                let width = columns.len();
                self.count(row, columns.clone()) == width
            })
    }

    /// Writes elements of a valid row from `column` on to `out`; null ones are any value.
    #[inline]
    pub(crate) fn read<T: Number>(
        &self,
        reader: &Reader<T>,
        row: usize,
        column: usize,
        out: &mut [T],
    ) {
        match self {
            Self::Strided { values, .. } => {
                self.read_flat(reader, row * values.width + column, out);
            }
            Self::Lists { column: elements, offsets } => {
                let first = (offsets.start(row) + column) * reader.size;
                reader.read(&elements.values[first..first + out.len() * reader.size], out);
            }
        }
    }

    /// Writes the elements of strided rows from number `from` on, counted row by row, to `out`.
    fn read_flat<T: Number>(&self, reader: &Reader<T>, from: usize, out: &mut [T]) {
        let Self::Strided { values, .. } = self else { return };
        if reader.is_same {
            return values.gather(from, bytemuck::cast_slice_mut(out));
        }
        let mut stored = [0u8; HELD * 8];
        for (i, out) in out.chunks_mut(HELD).enumerate() {
            let stored = &mut stored[..out.len() * reader.size];
            values.gather(from + i * HELD, stored);
            reader.read(stored, out);
        }
    }

    /// Writes the elements `range` of rows of `width`, counted row by row, to `out`, which holds
    /// what null rows shall; null elements of other rows are any value.
    pub(crate) fn read_rows<T: Number>(
        &self,
        reader: &Reader<T>,
        width: usize,
        row_nulls: Option<Bits<'_>>,
        range: Range<usize>,
        out: &mut [T],
    ) {
        if let (Self::Strided { .. }, None) = (self, row_nulls) {
            return self.read_flat(reader, range.start, out);
        }
        for row in range.start / width..range.end.div_ceil(width) {
            if row_nulls.is_none_or(|nulls| nulls.get(row)) {
                let from = range.start.max(row * width);
                let to = range.end.min((row + 1) * width);
                let out = &mut out[from - range.start..to - range.start];
                self.read(reader, row, from - row * width, out);
            }
        }
    }

    /// Writes the bytes of whole rows of `width` elements to `out`, which holds what null rows
    /// shall.
    pub(super) fn copy_rows(
        &self,
        width: usize,
        size: usize,
        row_nulls: Option<Bits<'_>>,
        rows: Range<usize>,
        out: &mut [u8],
    ) {
        match self {
            Self::Strided { values, .. } => values.gather(rows.start * width, out),
            Self::Lists { column, offsets } => {
                for (row, out) in rows.zip(out.chunks_exact_mut((width * size).max(1))) {
                    if row_nulls.is_none_or(|nulls| nulls.get(row)) {
                        let first = offsets.start(row) * size;
                        out.copy_from_slice(&column.values[first..first + width * size]);
                    }
                }
            }
        }
    }
}

/// Stored elements that are held on their way to another type.
const HELD: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(shape: [usize; 2], strides: [isize; 2], bytes: usize) -> Result<Strided> {
        let memory = Buffer::from_vec((0..bytes).map(|i| i as u8).collect::<Vec<u8>>());
        Strided::new(memory, shape, strides, 2)
    }

    #[test]
    fn elements_are_gathered_at_every_kind_of_stride() {
        for (shape, strides) in [
            ([3, 4], [8, 2]),
            ([3, 4], [2, 6]),
            ([4, 3], [-6, 2]),
            ([4, 3], [6, -2]),
            ([4, 3], [-6, -2]),
            ([5, 7], [0, 2]),
            ([5, 7], [2, 0]),
            ([1000, 1000], [0, 0]),
            ([7, 1], [4, 0]),
            ([2, 3], [12, 4]),
        ] {
            let (low, high) = span(shape, strides, 2).unwrap();
            let array = strided(shape, strides, (high - low) as usize).unwrap();
            for from in [0, 1, shape[1], shape[0] * shape[1] - 1] {
                let len = (shape[0] * shape[1] - from).min(40);
                let mut out = vec![0; 2 * len];
                array.gather(from, &mut out);
                for (i, pair) in out.chunks(2).enumerate() {
                    let (row, column) = ((from + i) / shape[1], (from + i) % shape[1]);
                    let at = row as isize * strides[0] + column as isize * strides[1] - low;
                    assert_eq!(pair, [at as u8, (at + 1) as u8], "{shape:?} {strides:?} {from}");
                }
            }
        }
    }

    #[test]
    fn shapes_that_overflow_or_leave_the_memory_are_refused() {
        assert!(span([usize::MAX, 2], [1, 1], 2).is_none());
        assert!(span([1 << 40, 1 << 40], [1 << 40, 8], 8).is_none());
        assert!(span([0, 3], [8, 2], 2).is_none());
        assert!(strided([3, 4], [8, 2], 23).is_err());
        assert!(strided([3, 4], [8, 2], 25).is_err());
    }
}
