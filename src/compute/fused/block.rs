//! A tile of whole rows, as they are stored, and which of its elements are null.

use std::ops::Range;

use arrow_buffer::NullBuffer;
use pulp::bytemuck;

use crate::dispatch::settings;
use crate::error::Result;
use crate::matrix::{self, Bits, Mask, Matrix, Number, Reader, Scratch};
use crate::memory;

/// Which rows and elements are null at some node of a chain.
#[derive(Clone, Default)]
pub(in crate::compute) struct Nulls {
    /// Rows that are null as a whole.
    pub(in crate::compute) rows: Option<NullBuffer>,
    /// Elements, row by row.
    pub(in crate::compute) elements: Option<NullBuffer>,
    /// Whether a step before may have found nothing to give for a row.
    pub(in crate::compute) may_miss_rows: bool,
}

impl Nulls {
    pub(super) fn of(x: &Matrix) -> Result<Self> {
        let all = 0..x.rows();
        let (rows, elements) = (x.row_nulls(all.clone())?, x.element_nulls(all)?);
        Ok(Self { rows, elements, may_miss_rows: false })
    }

    /// These, and those of an operand.
    pub(super) fn with(
        &self,
        rows: Option<NullBuffer>,
        elements: Option<NullBuffer>,
    ) -> Result<Self> {
        let rows = matrix::union(self.rows.clone(), rows)?;
        let elements = matrix::union(self.elements.clone(), elements)?;
        Ok(Self { rows, elements, may_miss_rows: self.may_miss_rows })
    }

    /// The same with null rows in place of rows that have a null.
    pub(super) fn whole_rows(&self, rows: usize, width: usize) -> Result<Self> {
        let Some(elements) = &self.elements else { return Ok(self.clone()) };
        let bits = Bits::new(elements);
        let is_whole = |row: usize| bits.all(row * width..(row + 1) * width);
        let whole = matrix::from_bits(rows, is_whole)?;
        let rows = matrix::union(self.rows.clone(), Some(whole))?;
        let rows = rows.filter(|rows| rows.null_count() > 0);
        Ok(Self { rows, elements: None, may_miss_rows: self.may_miss_rows })
    }

    /// Whether anything may be null.
    pub(super) fn are_any(&self) -> bool {
        self.rows.is_some() || self.elements.is_some() || self.may_miss_rows
    }
}

/// Whole rows at some node of a chain.
#[derive(Clone, Copy)]
pub(in crate::compute) struct RowTile<'t> {
    /// The number of its first row, and how many there are.
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) width: usize,
    /// Its elements, as they are stored. What lies under a null is any value.
    pub(super) bytes: &'t [u8],
    pub(super) nulls: &'t Nulls,
    /// Which rows have no values, if a step found such a row; else empty.
    pub(super) missing: &'t [bool],
    /// What lies behind it in memory.
    pub(super) ahead: &'t [u8],
}

impl<'t> RowTile<'t> {
    /// The numbers of its elements in the matrix.
    pub(super) fn elements(&self) -> Range<usize> {
        self.first * self.width..(self.first + self.rows) * self.width
    }

    /// Its elements as `T`: in place, or in `scratch`.
    pub(super) fn values<'s, T: Number>(
        &self,
        reader: &Reader<T>,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T]
    where
        't: 's,
    {
        if reader.is_same {
            return bytemuck::cast_slice(self.bytes);
        }
        memory::resize(scratch, self.rows * self.width, T::default());
        reader.read(self.bytes, scratch);
        scratch
    }

    /// Its elements as `T`, with `fill` in place of nulls.
    pub(super) fn filled<'s, T: Number>(
        &self,
        reader: &Reader<T>,
        fill: T,
        scratch: &'s mut Scratch<T>,
    ) -> &'s [T]
    where
        't: 's,
    {
        if !self.has_nulls() {
            return self.values(reader, scratch);
        }
        memory::resize(scratch, self.rows * self.width, fill);
        match reader.is_same {
            true => scratch.copy_from_slice(bytemuck::cast_slice(self.bytes)),
            false => reader.read(self.bytes, scratch),
        }
        if let Some(elements) = &self.nulls.elements {
            let mask = Mask::of(settings::level(), Bits::new(elements));
            mask.fill(self.elements(), fill, scratch);
        }
        self.each_null_row(|row| scratch[row * self.width..][..self.width].fill(fill));
        scratch
    }

    /// Whether any of its elements is null.
    pub(super) fn has_nulls(&self) -> bool {
        let rows = self.first..self.first + self.rows;
        !self.missing.is_empty()
            || self.nulls.rows.as_ref().is_some_and(|nulls| !Bits::new(nulls).all(rows))
            || (self.nulls.elements.as_ref())
                .is_some_and(|nulls| !Bits::new(nulls).all(self.elements()))
    }

    /// Calls `f` with each of its rows that is null as a whole; with some twice, perhaps.
    pub(super) fn each_null_row(&self, mut f: impl FnMut(usize)) {
        if let Some(rows) = &self.nulls.rows {
            let range = self.first..self.first + self.rows;
            Bits::new(rows).each_unset(range, |row| f(row - self.first));
        }
        self.missing
            .iter()
            .enumerate()
            .filter(|(_, missing)| **missing)
            .for_each(|(row, _)| f(row));
    }

    /// Which of its elements are valid; `None` if all are.
    pub(super) fn valid<'s>(&self, valid: &'s mut Vec<bool>) -> Option<&'s [bool]> {
        if !self.has_nulls() {
            return None;
        }
        valid.clear();
        memory::resize(valid, self.rows * self.width, true);
        if let Some(elements) = &self.nulls.elements {
            Bits::new(elements).spread(settings::level(), self.elements(), valid);
        }
        self.each_null_row(|row| valid[row * self.width..][..self.width].fill(false));
        Some(valid)
    }
}
