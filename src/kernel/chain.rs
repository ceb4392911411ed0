//! Operations on elements that follow one another, in registers.
//!
//! ```text
//! for each block of four registers of x:
//!     for each operation: block = block op its operand      a number, or as many elements
//!     store the block, NaNs as the canonical one
//! ```
//!
//! Each is one IEEE operation, so the bits are those of the same loops of [`super::arith`] one after
//! the other; which NaN comes out of one of them changes nothing but the NaN of the next. Explicit
//! vectors, since an array that a loop over operations changes stays in memory (docs/perf/chains.md).

use pulp::bytemuck::{Pod, cast_slice};

use super::{LANES, Real, Simd, fold};

/// An operation that registers have an instruction or two for. Bounds are held in float64, which is
/// exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    /// `a + y`, and so the others.
    Add,
    Subtract,
    /// `y − a`
    SubtractFrom,
    Multiply,
    Divide,
    /// `y / a`
    DivideInto,
    Negate,
    Abs,
    Square,
    Clip {
        lowest: f64,
        highest: f64,
    },
}

impl Operation {
    /// The same with its operands the other way round.
    pub(crate) fn reversed(self) -> Option<Self> {
        match self {
            Self::Add | Self::Multiply => Some(self),
            Self::Subtract => Some(Self::SubtractFrom),
            Self::Divide => Some(Self::DivideInto),
            _ => None,
        }
    }
}

/// What elements are combined with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum With<'a, T> {
    One(T),
    /// One for each element.
    Each(&'a [T]),
}

/// An operation of a chain, with its operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link<'a, T> {
    pub(crate) operation: Operation,
    pub(crate) with: With<'a, T>,
}

/// Registers of the elements of a type.
pub(crate) trait Registers: Real + Pod {
    type R<P: pulp::Simd>: Pod;
    /// The whole registers of a slice, and what is left.
    fn whole<P: pulp::Simd>(x: &[Self]) -> (&[Self::R<P>], &[Self]);
    fn whole_mut<P: pulp::Simd>(x: &mut [Self]) -> (&mut [Self::R<P>], &mut [Self]);
    /// A register of fewer elements than it has.
    fn some<P: pulp::Simd>(simd: P, x: &[Self]) -> Self::R<P>;
    fn put_some<P: pulp::Simd>(simd: P, out: &mut [Self], v: Self::R<P>);
    fn splat<P: pulp::Simd>(simd: P, x: Self) -> Self::R<P>;
    fn add<P: pulp::Simd>(simd: P, a: Self::R<P>, b: Self::R<P>) -> Self::R<P>;
    fn subtract<P: pulp::Simd>(simd: P, a: Self::R<P>, b: Self::R<P>) -> Self::R<P>;
    fn multiply<P: pulp::Simd>(simd: P, a: Self::R<P>, b: Self::R<P>) -> Self::R<P>;
    fn divide<P: pulp::Simd>(simd: P, a: Self::R<P>, b: Self::R<P>) -> Self::R<P>;
    fn negate<P: pulp::Simd>(simd: P, a: Self::R<P>) -> Self::R<P>;
    fn abs<P: pulp::Simd>(simd: P, a: Self::R<P>) -> Self::R<P>;
    /// `if a < bound { bound } else { a }`
    fn at_least<P: pulp::Simd>(simd: P, a: Self::R<P>, bound: Self::R<P>) -> Self::R<P>;
    /// `if a > bound { bound } else { a }`
    fn at_most<P: pulp::Simd>(simd: P, a: Self::R<P>, bound: Self::R<P>) -> Self::R<P>;
    /// The canonical NaN in place of any.
    fn canonical_nan<P: pulp::Simd>(simd: P, a: Self::R<P>) -> Self::R<P>;
}

macro_rules! registers {
    ($t:ty, $r:ident, $whole:ident $whole_mut:ident $some:ident $put_some:ident $splat:ident
     $add:ident $subtract:ident $multiply:ident $divide:ident $negate:ident $abs:ident
     $less:ident $greater:ident $equal:ident $select:ident) => {
        impl Registers for $t {
            type R<P: pulp::Simd> = P::$r;

            #[inline(always)]
            fn whole<P: pulp::Simd>(x: &[Self]) -> (&[P::$r], &[Self]) {
                P::$whole(x)
            }
            #[inline(always)]
            fn whole_mut<P: pulp::Simd>(x: &mut [Self]) -> (&mut [P::$r], &mut [Self]) {
                P::$whole_mut(x)
            }
            #[inline(always)]
            fn some<P: pulp::Simd>(simd: P, x: &[Self]) -> P::$r {
                simd.$some(x)
            }
            #[inline(always)]
            fn put_some<P: pulp::Simd>(simd: P, out: &mut [Self], v: P::$r) {
                simd.$put_some(out, v);
            }
            #[inline(always)]
            fn splat<P: pulp::Simd>(simd: P, x: Self) -> P::$r {
                simd.$splat(x)
            }
            #[inline(always)]
            fn add<P: pulp::Simd>(simd: P, a: P::$r, b: P::$r) -> P::$r {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn subtract<P: pulp::Simd>(simd: P, a: P::$r, b: P::$r) -> P::$r {
                simd.$subtract(a, b)
            }
            #[inline(always)]
            fn multiply<P: pulp::Simd>(simd: P, a: P::$r, b: P::$r) -> P::$r {
                simd.$multiply(a, b)
            }
            #[inline(always)]
            fn divide<P: pulp::Simd>(simd: P, a: P::$r, b: P::$r) -> P::$r {
                simd.$divide(a, b)
            }
            #[inline(always)]
            fn negate<P: pulp::Simd>(simd: P, a: P::$r) -> P::$r {
                simd.$negate(a)
            }
            #[inline(always)]
            fn abs<P: pulp::Simd>(simd: P, a: P::$r) -> P::$r {
                simd.$abs(a)
            }
            #[inline(always)]
            fn at_least<P: pulp::Simd>(simd: P, a: P::$r, bound: P::$r) -> P::$r {
                simd.$select(simd.$less(a, bound), bound, a)
            }
            #[inline(always)]
            fn at_most<P: pulp::Simd>(simd: P, a: P::$r, bound: P::$r) -> P::$r {
                simd.$select(simd.$greater(a, bound), bound, a)
            }
            #[inline(always)]
            fn canonical_nan<P: pulp::Simd>(simd: P, a: P::$r) -> P::$r {
                simd.$select(simd.$equal(a, a), a, simd.$splat(Self::NAN))
            }
        }
    };
}

registers!(f32, f32s, as_simd_f32s as_mut_simd_f32s partial_load_f32s partial_store_f32s splat_f32s
    add_f32s sub_f32s mul_f32s div_f32s neg_f32s abs_f32s
    less_than_f32s greater_than_f32s equal_f32s select_f32s);
registers!(f64, f64s, as_simd_f64s as_mut_simd_f64s partial_load_f64s partial_store_f64s splat_f64s
    add_f64s sub_f64s mul_f64s div_f64s neg_f64s abs_f64s
    less_than_f64s greater_than_f64s equal_f64s select_f64s);

/// Registers of a block: enough that what an operation costs beside its instructions is little, and
/// few enough for 16 registers with bounds and operands beside them.
const BLOCK: usize = 4;

/// `out = x`, after all operations of a chain. Operands have as many elements as `x`. Meanwhile what
/// lies `ahead` elements behind is fetched.
#[inline(always)]
pub(crate) fn chain<T: Registers, S: Simd>(
    simd: S,
    x: &[T],
    links: &[Link<'_, T>],
    out: &mut [T],
    ahead: usize,
) {
    let p = simd.registers();
    let (whole, rest) = T::whole::<S::P>(x);
    let (out, out_rest) = T::whole_mut::<S::P>(out);
    let (blocks, singles) = whole.as_chunks::<BLOCK>();
    let (out_blocks, out_singles) = out.as_chunks_mut::<BLOCK>();
    // The same in registers.
    let ahead = ahead * whole.len() / x.len().max(1);
    for (i, (block, out)) in blocks.iter().zip(out_blocks).enumerate() {
        let at = i * BLOCK;
        for k in 0..BLOCK {
            simd.fetch(&block[k..], ahead);
        }
        let with = |y: &[T]| {
            let (y, _) = T::whole::<S::P>(y);
            y.get(at..at + BLOCK).and_then(|y| y.first_chunk::<BLOCK>()).copied()
        };
        *out = run(p, *block, links, with);
    }
    let done = blocks.len() * BLOCK;
    for (i, (single, out)) in singles.iter().zip(out_singles).enumerate() {
        let with = |y: &[T]| T::whole::<S::P>(y).0.get(done + i).map(|y| [*y]);
        [*out] = run(p, [*single], links, with);
    }
    if !rest.is_empty() {
        let from = x.len() - rest.len();
        let with = |y: &[T]| y.get(from..x.len()).map(|y| [T::some(p, y)]);
        let [v] = run(p, [T::some(p, rest)], links, with);
        T::put_some(p, out_rest, v);
    }
}

/// The sum of what [`chain`] gives for a row of at most a leaf, in the order of [`super::sum`],
/// without storing it.
#[inline(always)]
pub(crate) fn chain_sum<T: Registers, S: Simd>(
    simd: S,
    x: &[T],
    links: &[Link<'_, T>],
    ahead: usize,
) -> f64 {
    let p = simd.registers();
    let (whole, rest) = T::whole::<S::P>(x);
    let (blocks, singles) = whole.as_chunks::<BLOCK>();
    let ahead = ahead * whole.len() / x.len().max(1);
    let mut sums = simd.splat(-0.0);
    for (i, block) in blocks.iter().enumerate() {
        let at = i * BLOCK;
        for k in 0..BLOCK {
            simd.fetch(&block[k..], ahead);
        }
        let with = |y: &[T]| {
            let (y, _) = T::whole::<S::P>(y);
            y.get(at..at + BLOCK).and_then(|y| y.first_chunk::<BLOCK>()).copied()
        };
        let made = run(p, *block, links, with);
        for eight in cast_slice::<_, T>(&made).as_chunks::<LANES>().0 {
            sums = simd.add(sums, T::load(simd, eight));
        }
    }
    // Less than a block, which is at most 64 elements.
    let mut held = [T::default(); 64];
    let done = blocks.len() * BLOCK;
    let left = x.len() - cast_slice::<_, T>(blocks).len();
    let (held_whole, held_rest) = T::whole_mut::<S::P>(&mut held[..left]);
    for (i, (single, out)) in singles.iter().zip(held_whole).enumerate() {
        let with = |y: &[T]| T::whole::<S::P>(y).0.get(done + i).map(|y| [*y]);
        [*out] = run(p, [*single], links, with);
    }
    if !rest.is_empty() {
        let from = x.len() - rest.len();
        let with = |y: &[T]| y.get(from..x.len()).map(|y| [T::some(p, y)]);
        let [v] = run(p, [T::some(p, rest)], links, with);
        T::put_some(p, held_rest, v);
    }
    let (eights, tail) = held[..left].as_chunks::<LANES>();
    for eight in eights {
        sums = simd.add(sums, T::load(simd, eight));
    }
    let mut lanes = simd.store(sums);
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *lane += x.widen();
    }
    fold(lanes)
}

/// Runs all operations over a few registers; `with` gives those of an operand.
#[inline(always)]
fn run<T: Registers, P: pulp::Simd, const K: usize>(
    p: P,
    mut v: [T::R<P>; K],
    links: &[Link<'_, T>],
    with: impl Fn(&[T]) -> Option<[T::R<P>; K]>,
) -> [T::R<P>; K] {
    macro_rules! binary {
        ($link:ident, |$a:ident, $y:ident| $result:expr) => {
            match $link.with {
                With::One(y) => {
                    let $y = T::splat(p, y);
                    for k in 0..K {
                        let $a = v[k];
                        v[k] = $result;
                    }
                }
                With::Each(y) => {
                    if let Some(y) = with(y) {
                        for k in 0..K {
                            let ($a, $y) = (v[k], y[k]);
                            v[k] = $result;
                        }
                    }
                }
            }
        };
    }
    for link in links {
        match link.operation {
            Operation::Add => binary!(link, |a, y| T::add(p, a, y)),
            Operation::Subtract => binary!(link, |a, y| T::subtract(p, a, y)),
            Operation::SubtractFrom => binary!(link, |a, y| T::subtract(p, y, a)),
            Operation::Multiply => binary!(link, |a, y| T::multiply(p, a, y)),
            Operation::Divide => binary!(link, |a, y| T::divide(p, a, y)),
            Operation::DivideInto => binary!(link, |a, y| T::divide(p, y, a)),
            Operation::Negate => {
                for k in 0..K {
                    v[k] = T::negate(p, v[k]);
                }
            }
            Operation::Abs => {
                for k in 0..K {
                    v[k] = T::abs(p, v[k]);
                }
            }
            Operation::Square => {
                for k in 0..K {
                    v[k] = T::multiply(p, v[k], v[k]);
                }
            }
            Operation::Clip { lowest, highest } => {
                let lowest = T::splat(p, T::round(lowest));
                let highest = T::splat(p, T::round(highest));
                for k in 0..K {
                    v[k] = T::at_most(p, T::at_least(p, v[k], lowest), highest);
                }
            }
        }
    }
    for k in 0..K {
        v[k] = T::canonical_nan(p, v[k]);
    }
    v
}
