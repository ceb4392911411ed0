//! States of any ranges of whole leaves merge to the bits of the whole, and rows that are gathered
//! are as good as a matrix of them.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float16Array, Float32Array, Float64Array, Int16Array, Int64Array, RecordBatch,
    StructArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use half::f16;

use super::*;
use crate::kernel::{
    ArgExtreme, Both, Deviation, ExactSum, Extreme, Itself, Magnitude, Squared, Sums,
};
use crate::matrix::{Gathered, Matrix};

const LEAF: usize = 1024;

/// Some instruction set: the bits are the same at all.
fn level() -> Level {
    Level::available().last().expect("the portable one")
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % n
    }

    /// Numbers of very different sizes, of which many are ordinary.
    fn number(&mut self, extreme: bool) -> f64 {
        let x = self.below(1 << 20) as f64 / 1000.0 - 500.0;
        match self.below(400) {
            0 if extreme => x * 1e305,
            1 if extreme => x * 1e-300,
            2 if extreme => 1e200,
            3 => 0.0,
            4 => -0.0,
            _ => x,
        }
    }
}

/// How the elements of a test lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    Rows,
    Columns,
    Chunks,
}

const LAYOUTS: [Layout; 3] = [Layout::Rows, Layout::Columns, Layout::Chunks];

fn array(element: &DataType, x: &[Option<f64>]) -> ArrayRef {
    let each = x.iter().copied();
    match element {
        DataType::Float16 => Arc::new(Float16Array::from_iter(each.map(|x| x.map(f16::from_f64)))),
        DataType::Float32 => Arc::new(Float32Array::from_iter(each.map(|x| x.map(|x| x as f32)))),
        DataType::Float64 => Arc::new(Float64Array::from_iter(each)),
        DataType::Int16 => Arc::new(Int16Array::from_iter(each.map(|x| x.map(|x| x as i16)))),
        DataType::Int64 => Arc::new(Int64Array::from_iter(each.map(|x| x.map(|x| x as i64)))),
        _ => Arc::new(UInt64Array::from_iter(each.map(|x| x.map(|x| x as u64)))),
    }
}

fn matrix(element: &DataType, x: &[Option<f64>], width: usize, layout: Layout) -> Matrix {
    let rows = x.len() / width;
    let of = |x: &[Option<f64>]| Matrix::reshape(&array(element, x), width).unwrap();
    match layout {
        Layout::Rows => of(x),
        Layout::Chunks => {
            let (a, b) = (rows / 3 * width, (rows / 2 + 7) * width);
            Matrix::from_chunks(vec![of(&x[..a]), of(&x[a..b]), of(&x[b..])]).unwrap()
        }
        Layout::Columns => {
            let column =
                |c: usize| -> Vec<_> { x.iter().skip(c).step_by(width).copied().collect() };
            let columns: Vec<ArrayRef> = (0..width).map(|c| array(element, &column(c))).collect();
            let fields: Fields =
                (0..width).map(|c| Field::new(format!("c{c}"), element.clone(), true)).collect();
            if rows.is_multiple_of(2) {
                let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
                return Matrix::try_from(&batch).unwrap();
            }
            let rows: ArrayRef = Arc::new(StructArray::new(fields, columns, None));
            Matrix::try_from(&rows as &dyn Array).unwrap()
        }
    }
}

/// Cuts of `len` elements into ranges of whole leaves, but for the last.
fn cuts(random: &mut Random, len: usize) -> Vec<Range<usize>> {
    let leaves = len.div_ceil(LEAF);
    let mut at: Vec<usize> =
        (0..random.below(6)).map(|_| random.below(leaves + 1) * LEAF).collect();
    at.extend([0, len]);
    at.iter_mut().for_each(|at| *at = (*at).min(len));
    at.sort_unstable();
    at.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// A state of some rows, fed in pieces of any length.
fn state<T: Number, R: Reducer<T>>(
    reducer: R,
    random: &mut Random,
    source: &impl Source<T>,
    rows: Range<usize>,
) -> Running<T, R> {
    let width = source.width();
    let mut running = Running::new(reducer, width, rows.start, None);
    let mut next = rows.start;
    while next < rows.end {
        let take = [1, 7, 8, 300, 2000][random.below(5)];
        let piece = next..rows.end.min(next + take);
        let mut workspace = TileWorkspace::default();
        running.update(level(), source, (piece.clone(), 0..width), None, &mut workspace);
        next = piece.end;
    }
    running
}

/// Merges neighbours in any order.
fn merged<T: Number, R: Reducer<T>>(
    reducer: R,
    random: &mut Random,
    mut states: Vec<State<R::Node>>,
) -> State<R::Node> {
    while states.len() > 1 {
        let right = 1 + random.below(states.len() - 1);
        let right = (states.remove(right), right);
        let left = states.remove(right.1 - 1);
        states.insert(right.1 - 1, left.merge(reducer, right.0));
    }
    states.remove(0)
}

fn check<T: Number, R: Reducer<T>>(reducer: R, random: &mut Random, x: &Matrix, what: &str)
where
    R::Node: Debug,
{
    let view = x.view::<T>().unwrap();
    let (rows, elements) = (x.rows(), x.rows() * x.width());
    let level = level();
    let mut workspace = TileWorkspace::default();
    let mut whole = Running::new(reducer, x.width(), 0, Some(rows));
    whole.update(level, &view, (0..rows, 0..x.width()), None, &mut workspace);
    let whole = format!("{:?}", whole.nodes());
    for _ in 0..3 {
        let ranges = cuts(random, rows);
        let states = ranges.iter().map(|rows| state(reducer, random, &view, rows.clone()).pause());
        let states: Vec<_> = states.collect();
        let got = merged(reducer, random, states).nodes(reducer);
        assert_eq!(format!("{got:?}"), whole, "{what}, {ranges:?}");
    }
    let one = |range: Range<usize>| {
        let mut one = RunningOne::new(reducer, range.start);
        one.update(level, &view, range, &mut TileWorkspace::default());
        one
    };
    let whole = one(0..elements).pause().nodes(reducer);
    for _ in 0..3 {
        let ranges = cuts(random, elements);
        let states = ranges.iter().map(|range| one(range.clone()).pause()).collect();
        let got = merged(reducer, random, states).nodes(reducer);
        assert_eq!(format!("{got:?}"), format!("{whole:?}"), "{what}, flat, {ranges:?}");
    }
}

fn data(random: &mut Random, element: &DataType, len: usize, nulls: bool) -> Vec<Option<f64>> {
    let extreme = *element == DataType::Float64 && random.below(2) == 0;
    let all_null = random.below(len)..random.below(len) + 2 * LEAF;
    let each = (0..len).map(|i| {
        let x = random.number(extreme);
        let is_null = nulls && (all_null.contains(&i) || random.below(5) == 0);
        (!is_null).then_some(if *element == DataType::UInt64 { x.abs() } else { x })
    });
    each.collect()
}

#[test]
fn states_of_whole_leaves_merge_to_the_bits_of_the_whole() {
    let mut random = Random(5);
    let elements = [
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Int16,
        DataType::UInt64,
    ];
    for element in &elements {
        for (rows, width) in [(5000, 1), (7301, 3), (2050, 40), (900, 9)] {
            for (layout, nulls) in LAYOUTS.into_iter().flat_map(|l| [(l, false), (l, true)]) {
                let x = data(&mut random, element, rows * width, nulls);
                let x = matrix(element, &x, width, layout);
                let what = format!("{element}, {rows} x {width}, {layout:?}, nulls: {nulls}");
                let random = &mut random;
                macro_rules! floats {
                    ($T:ty) => {
                        check::<$T, _>(Sums(Itself), random, &x, &format!("sum of {what}"));
                        check::<$T, _>(Sums(Magnitude), random, &x, &format!("norm 1 of {what}"));
                        check::<$T, _>(Sums(Squared), random, &x, &format!("norm of {what}"));
                        check::<$T, _>(Sums(Deviation), random, &x, &format!("var of {what}"));
                    };
                }
                macro_rules! any {
                    ($T:ty) => {
                        let both = Both(Extreme::<false, false>, Extreme::<true, false>);
                        check::<$T, _>(both, random, &x, &format!("bounds of {what}"));
                        check::<$T, _>(
                            ArgExtreme::<true>,
                            random,
                            &x,
                            &format!("argmax of {what}"),
                        );
                    };
                }
                match element {
                    DataType::Float32 => {
                        floats!(f32);
                        any!(f32);
                    }
                    DataType::Float16 | DataType::Float64 => {
                        floats!(f64);
                        any!(f64);
                    }
                    DataType::Int16 => {
                        any!(i64);
                        check::<i64, _>(ExactSum, random, &x, &format!("sum of {what}"));
                    }
                    _ => {
                        any!(u64);
                        check::<u64, _>(ExactSum, random, &x, &format!("sum of {what}"));
                    }
                }
            }
        }
    }
}

#[test]
fn gathered_rows_are_as_good_as_a_matrix_of_them() {
    let mut random = Random(6);
    let element = DataType::Float64;
    for (layout, nulls) in LAYOUTS.into_iter().flat_map(|l| [(l, false), (l, true)]) {
        let (rows, width) = (3001, 5);
        let x = data(&mut random, &element, rows * width, nulls);
        let indices: Vec<u32> = (0..2500).map(|_| random.below(rows) as u32).collect();
        let taken: Vec<Option<f64>> = indices
            .iter()
            .flat_map(|row| &x[*row as usize * width..(*row as usize + 1) * width])
            .copied()
            .collect();
        let (x, taken) =
            (matrix(&element, &x, width, layout), matrix(&element, &taken, width, layout));
        let (view, taken) = (x.view::<f64>().unwrap(), taken.view::<f64>().unwrap());
        let gathered = Gathered { level: level(), view: &view, indices: &indices };
        let all = 0..indices.len();
        let expected = state(Sums(Deviation), &mut random, &taken, all.clone()).nodes();
        let got = state(Sums(Deviation), &mut random, &gathered, all).nodes();
        assert_eq!(format!("{got:?}"), format!("{expected:?}"), "{layout:?}, nulls: {nulls}");
        let mut one = [0, 1].map(|_| RunningOne::new(Sums(Itself), 0));
        let (level, mut workspace) = (level(), TileWorkspace::default());
        one[0].update(level, &taken, 0..indices.len() * width, &mut workspace);
        one[1].update(level, &gathered, 0..indices.len() * width, &mut workspace);
        let [expected, got] = one.map(|one| format!("{:?}", one.pause()));
        assert_eq!(got, expected, "{layout:?}, nulls: {nulls}");
    }
}
