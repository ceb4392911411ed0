//! Products of matrices, in tiles of registers.
//!
//! ```text
//! for some columns of b, as many as half of an L2 holds:
//!     pack them                                   once, whoever comes first
//!     for a few rows of a, a strip:
//!         for every panel of the packed columns:
//!             a tile, in registers                tile.rs
//!         finish the strip                        while it is in L1
//! ```
//!
//! `a` is not packed: a tile broadcasts its elements one by one, and the rows of a strip are read
//! in order. Copies of strips whose rows lie a multiple of 4 KiB apart lost more than they gained. A product runs on the thread that asks for it: the compute functions hand blocks of
//! the result to [`run`](super::run), and each block is one call here. On macOS Accelerate's BLAS
//! takes the place of the tiles, as the plan's backend says. Either adds up in an order of its own,
//! with fused multiplications where the CPU has them: products are exempt from "the same bits
//! everywhere" (docs/guide/numbers.md). docs/perf/products.md has the figures.

#![allow(unsafe_code)]

mod pack;
mod tile;

use std::ops::Range;
use std::sync::OnceLock;

use super::{Backend, machine};
use crate::matrix::steps;
use crate::memory;
pub(crate) use pack::Packed;
use pack::{TileShape, level_of};
pub(crate) use tile::Native;
use tile::{MicroTile, OnTiles, Registers};

/// A matrix that lies row by row in a slice, or such a matrix with rows and columns exchanged.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a, T> {
    x: &'a [T],
    rows: usize,
    columns: usize,
    stride: usize,
    turned: bool,
}

impl<'a, T> Panel<'a, T> {
    /// `rows × columns` elements; each row begins `stride` elements after the last.
    pub(crate) fn new(x: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(stride >= columns, "gemm: rows do not overlap");
        let needed = if columns == 0 { Some(0) } else { extent(rows, columns, stride) };
        assert!(needed.is_some_and(|needed| needed <= x.len()), "gemm: the slice holds all rows");
        Self { x, rows, columns, stride, turned: false }
    }

    /// The same elements with rows and columns exchanged.
    pub(crate) fn transposed(self) -> Self {
        Self { turned: !self.turned, ..self }
    }

    /// Some of the columns.
    pub(crate) fn columns(self, columns: Range<usize>) -> Self {
        if self.turned {
            let x = &self.x[columns.start * self.stride..];
            return Self::new(x, columns.len(), self.columns, self.stride).transposed();
        }
        Self::new(&self.x[columns.start..], self.rows, columns.len(), self.stride)
    }

    /// Rows and columns.
    pub(crate) fn shape(&self) -> (usize, usize) {
        if self.turned { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    /// The rows by number, unless they lie across the slice.
    fn rows_in_order(self) -> Option<impl Fn(usize) -> &'a [T] + Copy> {
        let Self { x, columns, stride, turned, .. } = self;
        (!turned).then_some(move |row: usize| &x[row * stride..][..columns])
    }

    /// The elements of a column.
    pub(crate) fn column(self, column: usize) -> impl Iterator<Item = T>
    where
        T: Copy + 'a,
    {
        let Self { x, stride, turned, .. } = self;
        let (from, step) = if turned { (column * stride, 1) } else { (column, stride) };
        x.get(from..).unwrap_or(&[]).iter().step_by(step.max(1)).take(self.shape().0).copied()
    }

    #[cfg(any(target_os = "macos", test))]
    pub(super) fn parts(&self) -> (&'a [T], usize, bool) {
        (self.x, self.stride, self.turned)
    }
}

/// Elements from the first to the last of `rows`, if a number can say so.
fn extent(rows: usize, columns: usize, stride: usize) -> Option<usize> {
    match rows.checked_sub(1) {
        None => Some(0),
        Some(before) => before.checked_mul(stride)?.checked_add(columns),
    }
}

/// A type that matrices are multiplied in.
pub(crate) trait Gemm: Native {
    /// The unit roundoff: half the distance from 1 to the next number.
    const ROUNDOFF: f64;

    /// The product by a vendor library; `false` if there is none here, or it cannot say the shape.
    #[allow(unused_variables)]
    fn vendor(a: Panel<'_, Self>, b: Panel<'_, Self>, adds: bool, out: &mut [Self]) -> bool {
        false
    }
}

#[cfg(not(any(target_os = "macos", test)))]
impl Gemm for f32 {
    const ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;
}

#[cfg(not(any(target_os = "macos", test)))]
impl Gemm for f64 {
    const ROUNDOFF: f64 = f64::EPSILON / 2.0;
}

/// Rows of `b` that are packed and multiplied at once. A tile's panel of so many is 144 KiB at
/// AVX-512, whatever the type.
const DEPTH: usize = 768;

/// Bytes of a `b` that is packed once for all threads. A larger one is packed again for every block
/// of rows, so that memory does not grow with it.
const SHARED: usize = 16 << 20;

/// The right side of products, a block of columns at a time.
pub(crate) struct Factor<'a, T> {
    b: Panel<'a, T>,
    backend: Backend,
    column_step: usize,
    depth_step: usize,
    /// What was packed for all threads: the pieces of the first block of columns, then those of the
    /// next. None if it is too much.
    shared: Vec<OnceLock<Packed<T>>>,
}

/// What a thread packs for itself, and where it adds up.
#[derive(Debug)]
pub(crate) struct ProductWorkspace<T> {
    packed: Packed<T>,
    sums: Vec<T>,
}

impl<T> Default for ProductWorkspace<T> {
    fn default() -> Self {
        Self { packed: Packed::default(), sums: Vec::new() }
    }
}

/// What is done with rows of a product as soon as they are made: their numbers, and their elements.
pub(crate) type Finish<'f, T> = dyn FnMut(Range<usize>, &mut [T]) + 'f;

impl<'a, T: Gemm> Factor<'a, T> {
    pub(crate) fn new(backend: Backend, b: Panel<'a, T>) -> Self {
        let (depth, columns) = b.shape();
        let pieces = depth.div_ceil(DEPTH).max(1);
        let depth_step = depth.div_ceil(pieces).max(1);
        let tile = TileShape::of::<T>(level_of(backend)).columns;
        let most = machine().l2 / 2 / (depth_step * size_of::<T>());
        // As even as can be, so that no block is too narrow to be worth its strips.
        let blocks = columns.div_ceil(most.clamp(2 * tile, 32 * tile) / tile * tile).max(1);
        let column_step = columns.div_ceil(blocks).max(1).next_multiple_of(tile);
        Self::in_blocks(backend, b, column_step)
    }

    /// A factor whose blocks have so many columns.
    pub(crate) fn in_blocks(backend: Backend, b: Panel<'a, T>, column_step: usize) -> Self {
        let (depth, columns) = b.shape();
        let pieces = depth.div_ceil(DEPTH).max(1);
        let depth_step = depth.div_ceil(pieces).max(1);
        let fits = depth.saturating_mul(columns).saturating_mul(size_of::<T>()) <= SHARED;
        let count = if fits { columns.div_ceil(column_step) * pieces } else { 0 };
        let mut shared = Vec::new();
        memory::extend(&mut shared, (0..count).map(|_| OnceLock::new()));
        Self { b, backend, column_step, depth_step, shared }
    }

    /// The columns of a block. Blocks begin at its multiples.
    pub(crate) fn column_step(&self) -> usize {
        self.column_step
    }

    /// Multiplies the `rows` rows in `a` with columns of one block, and gives the rows of the product
    /// to `finish`, in order and a few at a time; not all of them if it is not to go on.
    pub(crate) fn multiply(
        &self,
        (a, rows): (&[T], usize),
        columns: Range<usize>,
        workspace: &mut ProductWorkspace<T>,
        go_on: &dyn Fn() -> bool,
        finish: &mut Finish<'_, T>,
    ) {
        let (depth, all) = self.b.shape();
        assert!(columns.start.is_multiple_of(self.column_step), "gemm: a block of columns");
        assert!(columns.len() <= self.column_step && columns.end <= all, "gemm: a block's columns");
        assert_eq!(rows.checked_mul(depth), Some(a.len()), "gemm: the shapes fit");
        if rows == 0 || columns.is_empty() {
            return;
        }
        let ProductWorkspace { packed, sums } = workspace;
        if depth == 0 {
            sums.clear();
            memory::resize(sums, rows * columns.len(), T::default());
            return finish(0..rows, sums);
        }
        if self.backend == Backend::Vdsp {
            memory::resize(sums, rows * columns.len(), T::default());
            let (a, b) = (Panel::new(a, rows, depth, depth), self.b.columns(columns.clone()));
            if T::vendor(a, b, false, sums) {
                return finish(0..rows, sums);
            }
        }
        let level = level_of(self.backend);
        let pieces = depth.div_ceil(self.depth_step);
        // Sums that are complete at once need no more than the cache holds.
        let tile = TileShape::of::<T>(level).rows;
        let at_once = tile * (FINISHED / (tile * columns.len())).max(1);
        let held = if pieces == 1 { at_once.min(rows) } else { rows };
        memory::resize(sums, held * columns.len(), T::default());
        for (piece, some) in steps(0..depth, self.depth_step).enumerate() {
            if piece > 0 && !go_on() {
                return;
            }
            let shared = self.shared.get(columns.start / self.column_step * pieces + piece);
            let packed = match shared {
                Some(shared) => shared.get_or_init(|| {
                    let mut packed = Packed::default();
                    packed.pack(level, self.b, some.clone(), columns.clone());
                    packed
                }),
                None => {
                    packed.pack(level, self.b, some.clone(), columns.clone());
                    &*packed
                }
            };
            let is_last = piece + 1 == pieces;
            for some_rows in steps(0..rows, at_once) {
                let a = &a[some_rows.start * depth..some_rows.end * depth];
                let from = if pieces == 1 { 0 } else { some_rows.start * columns.len() };
                let sums = &mut sums[from..][..some_rows.len() * columns.len()];
                T::at(level, Strips { a, depth, some: some.clone(), packed, sums });
                if is_last {
                    finish(some_rows, sums);
                }
            }
        }
    }
}

/// Elements of a product that are finished at once: strips of narrow products are many.
const FINISHED: usize = 2048;

/// The products of rows with a packed piece of a block of columns, a strip at a time.
struct Strips<'s, T> {
    a: &'s [T],
    /// Elements of a row of `a`, and those that are multiplied now.
    depth: usize,
    some: Range<usize>,
    packed: &'s Packed<T>,
    sums: &'s mut [T],
}

impl<T: Gemm> OnTiles<T> for Strips<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Registers<T>>(self, simd: S) {
        let Self { a, depth, some, packed, sums } = self;
        let (len, columns) = packed.shape();
        assert_eq!(len, some.len(), "gemm: as many rows of b as elements of a");
        assert!(packed.is_for::<S>(S::VECTORS), "gemm: panels of this level");
        let strips = sums.chunks_mut(S::ROWS * columns).zip(a.chunks(S::ROWS * depth));
        for (sums, rows_of_a) in strips {
            let rows = sums.len() / columns;
            let from = &rows_of_a[some.start..];
            assert!((rows - 1) * depth + len <= from.len(), "gemm: the rows of a strip");
            for panel in packed.panels() {
                let tile = MicroTile {
                    depth: len,
                    a: from.as_ptr(),
                    row_step: depth,
                    depth_step: 1,
                    b: panel.elements.as_ptr(),
                    c: sums[panel.first..].as_mut_ptr(),
                    stride: columns,
                    rows,
                    columns: panel.columns,
                    adds: some.start > 0,
                };
                // SAFETY: `from` holds `rows` rows of `len` elements, `depth` apart (asserted);
                // the panel, `len` rows of `width` elements, which is a number of registers
                // (asserted); `sums`, `rows` rows of `columns`, of which the panel's are some, and
                // it is unique.
                unsafe { simd.tile(panel.width / S::LANES, tile) };
            }
        }
    }
}

/// Adds to `out`, row by row, the products of the columns of `left` with those of `right`, over all
/// rows. Without a `right` they are those of `left` with itself, and only those of a column with
/// itself and those behind it are promised: half of the work.
pub(crate) fn add_products<T: Gemm>(
    backend: Backend,
    left: &Packed<T>,
    right: Option<&Packed<T>>,
    out: &mut [T],
) {
    let is_half = right.is_none();
    let right = right.unwrap_or(left);
    let ((depth, rows), (depth_right, columns)) = (left.shape(), right.shape());
    assert_eq!(depth, depth_right, "gemm: as many rows on both sides");
    assert_eq!(rows.checked_mul(columns), Some(out.len()), "gemm: the result fits");
    if depth == 0 || out.is_empty() {
        return;
    }
    let level = match backend {
        Backend::Native(level) => level,
        Backend::Vdsp => {
            let left = Panel::new(left.panel(0).elements, depth, rows, rows).transposed();
            let right = Panel::new(right.panel(0).elements, depth, columns, columns);
            let taken = T::vendor(left, right, true, out);
            return assert!(taken, "gemm: packed columns are few enough for any library");
        }
    };
    T::at(level, ColumnStrips { left, right, is_half, out });
}

/// The products of packed columns with packed columns.
struct ColumnStrips<'s, T> {
    left: &'s Packed<T>,
    right: &'s Packed<T>,
    is_half: bool,
    out: &'s mut [T],
}

impl<T: Gemm> OnTiles<T> for ColumnStrips<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Registers<T>>(self, simd: S) {
        let Self { left, right, is_half, out } = self;
        let (depth, columns) = right.shape();
        let vectors = S::BOTH_PACKED;
        assert!(
            left.is_for::<S>(vectors) && right.is_for::<S>(vectors),
            "gemm: panels of this level"
        );
        for of_rows in left.panels() {
            for some in steps(0..of_rows.columns, S::ROWS) {
                let first = of_rows.first + some.start;
                for panel in right.panels() {
                    if is_half && panel.first + panel.columns <= first {
                        continue;
                    }
                    let tile = MicroTile {
                        depth,
                        a: of_rows.elements[some.start..].as_ptr(),
                        row_step: 1,
                        depth_step: of_rows.width,
                        b: panel.elements.as_ptr(),
                        c: out[first * columns + panel.first..].as_mut_ptr(),
                        stride: columns,
                        rows: some.len(),
                        columns: panel.columns,
                        adds: true,
                    };
                    // SAFETY: both panels hold `depth` rows of their widths (`Packed::panel`): `some`
                    // are columns of the one, and the other is a number of registers wide
                    // (asserted); `out` has a row of `columns` for each column of `left`, of which
                    // the panel's are some, and is unique.
                    unsafe { simd.tile(panel.width / S::LANES, tile) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Level;

    fn backends() -> impl Iterator<Item = Backend> {
        Level::available().map(Backend::Native).chain([Backend::Vdsp])
    }

    /// Small whole numbers, so that every order of additions is exact.
    fn whole(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7 + i / 13 + seed) % 11) as f32 - 5.0).collect()
    }

    fn of<T: Gemm>(x: &[f32]) -> Vec<T> {
        x.iter().map(|x| T::round(f64::from(*x))).collect()
    }

    /// Every layout and shape, at every level and by the vendor's double, against a plain loop.
    fn check_products<T: Gemm>() {
        let shapes = [
            (0, 3, 2),
            (3, 0, 2),
            (1, 1, 1),
            (5, 7, 3),
            (33, 20, 17),
            (1, 40, 9),
            (64, 3, 1),
            // Two pieces of the depth; rows that fall into the same sets; several blocks.
            (9, 1537, 50),
            (17, 512, 25),
            (8, 700, 2000),
        ];
        for (backend, (rows, inner, columns)) in
            backends().flat_map(|b| shapes.map(move |shape| (b, shape)))
        {
            for (turned, gap) in [(false, 0), (true, 0), (false, 2), (true, 1)] {
                let (r, c) = if turned { (columns, inner) } else { (inner, columns) };
                let (x, y) = (whole(rows * inner, 0), whole(r * (c + gap), 3));
                let (a, b) = (of::<T>(&x), of::<T>(&y));
                let panel = Panel::new(&b, r, c, c + gap);
                let panel = if turned { panel.transposed() } else { panel };
                let factor = Factor::new(backend, panel);
                let mut workspace = ProductWorkspace::default();
                for some in steps(0..columns, factor.column_step()) {
                    let mut out = Vec::new();
                    factor.multiply(
                        (&a, rows),
                        some.clone(),
                        &mut workspace,
                        &|| true,
                        &mut |rows, made| {
                            assert_eq!(rows.start * some.len(), out.len());
                            out.extend_from_slice(made);
                            assert_eq!(rows.end * some.len(), out.len());
                        },
                    );
                    assert_eq!(out.len(), rows * some.len());
                    for (i, got) in out.iter().enumerate() {
                        let (row, column) = (i / some.len(), some.start + i % some.len());
                        let at = |k: usize| {
                            let (r, c) = if turned { (column, k) } else { (k, column) };
                            y[r * (inner_stride(turned, inner, columns) + gap) + c]
                        };
                        let expected: f32 = (0..inner).map(|k| x[row * inner + k] * at(k)).sum();
                        assert_eq!(
                            got.widen(),
                            f64::from(expected),
                            "{backend} {rows} {inner} {columns} {turned} {gap}: {row} {column}"
                        );
                    }
                }
            }
        }
    }

    fn inner_stride(turned: bool, inner: usize, columns: usize) -> usize {
        if turned { inner } else { columns }
    }

    #[test]
    fn products_agree_with_a_plain_loop_in_every_layout() {
        check_products::<f32>();
        check_products::<f64>();
    }

    /// A factor that is too large to be shared is packed again for each block.
    #[test]
    fn a_large_factor_gives_the_same_products() {
        let (rows, inner, columns) = (3, 1000, 4400);
        let (a, b) = (of::<f32>(&whole(rows * inner, 0)), of::<f32>(&whole(inner * columns, 1)));
        let backend = Backend::Native(Level::best());
        let factor = Factor::new(backend, Panel::new(&b, inner, columns, columns));
        assert!(factor.shared.is_empty());
        let mut workspace = ProductWorkspace::default();
        for some in steps(0..columns, factor.column_step()) {
            let mut out = Vec::new();
            factor.multiply((&a, rows), some.clone(), &mut workspace, &|| true, &mut |_, made| {
                out.extend_from_slice(made);
            });
            let last = some.end - 1;
            let expected: f32 = (0..inner).map(|k| a[2 * inner + k] * b[k * columns + last]).sum();
            assert_eq!(out.last(), Some(&expected));
        }
    }

    #[test]
    fn products_of_columns_agree_with_a_plain_loop() {
        for backend in backends() {
            for (depth, left, right) in [(1, 1, 1), (5, 30, 7), (40, 24, 48), (3, 50, 101)] {
                let (x, y) = (whole(depth * left, 0), whole(depth * right, 5));
                let packed = |x: &[f32], columns: usize| {
                    let mut packed = Packed::<f64>::default();
                    packed.reset(backend, depth, columns);
                    for (k, row) in x.chunks_exact(columns).enumerate() {
                        packed.fill_row(k, |some, to| to.copy_from_slice(&of::<f64>(&row[some])));
                    }
                    packed
                };
                let product = |a: (&[f32], usize, usize), b: (&[f32], usize, usize)| {
                    (0..depth).map(|k| a.0[k * a.1 + a.2] * b.0[k * b.1 + b.2]).sum::<f32>()
                };
                let mut out = vec![1.0; left * right];
                add_products(backend, &packed(&x, left), Some(&packed(&y, right)), &mut out);
                for (i, got) in out.iter().enumerate() {
                    let expected = product((&x, left, i / right), (&y, right, i % right));
                    assert_eq!(*got, 1.0 + f64::from(expected), "{backend} {depth} {left} {right}");
                }
                let mut half = vec![1.0; left * left];
                add_products(backend, &packed(&x, left), None, &mut half);
                for (a, b) in (0..left).flat_map(|a| (a..left).map(move |b| (a, b))) {
                    let expected = product((&x, left, a), (&x, left, b));
                    assert_eq!(half[a * left + b], 1.0 + f64::from(expected), "{backend} {a} {b}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "the slice holds all rows")]
    fn a_panel_that_its_slice_cannot_hold_is_refused() {
        let _ = Panel::new(&[0.0f32; 5], 2, 3, 3);
    }
}
