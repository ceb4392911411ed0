//! What transforms measure, and what they make of it.

use arrow_schema::DataType;

use super::Transform;
use crate::compute::reduce::Order;
use crate::kernel::{
    Affine, Both, Deviation, Element, Extreme, Itself, Magnitude, Partial, Real, Reducer, Scaled,
    Spread, Squared, Sums,
};
use crate::matrix::Number;

/// Takes the measure of a transform, and the type in which elements are read and results made.
pub(super) trait WithMeasure {
    type Out;
    fn with<T: Number + Scaled, M: Measure<T> + Send + 'static>(self, measure: M) -> Self::Out;
}

/// Calls `visitor` with what a transform of elements of a type measures. float16 (which must be
/// rounded once, so not through float32) and integers are read as float64.
pub(super) fn with_measure<V: WithMeasure>(
    transform: Transform,
    order: Order,
    element: &DataType,
    visitor: V,
) -> V::Out {
    let typed = Typed { element, visitor };
    match (transform, order) {
        (Transform::Normalize, Order::One) => typed.visit(Norm(Sums(Magnitude))),
        (Transform::Normalize, Order::Infinity) => typed.visit(Norm(Extreme::<true, true>)),
        (Transform::Normalize | Transform::Softmax, _) => typed.visit(Norm(Sums(Squared))),
        (Transform::Standardize, _) => typed.visit(Standard),
        (Transform::Center, _) => typed.visit(Center),
        (Transform::MinMaxScale, _) => typed.visit(Bounds),
    }
}

/// A visitor, and the type of the elements.
struct Typed<'a, V> {
    element: &'a DataType,
    visitor: V,
}

impl<V: WithMeasure> Typed<'_, V> {
    fn visit<M: Measure<f32> + Measure<f64> + Send + 'static>(self, measure: M) -> V::Out {
        match self.element {
            DataType::Float32 => self.visitor.with::<f32, M>(measure),
            _ => self.visitor.with::<f64, M>(measure),
        }
    }
}

/// What is done to elements: `(x · power − offset − rest) / divisor`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// A power of two: 1 but where elements, or what is made of them, overflow or vanish.
    pub(super) power: f64,
    pub(super) offset: f64,
    /// What is left out of the offset because it is a float64.
    pub(super) rest: f64,
    pub(super) divisor: f64,
}

impl Found {
    /// Nothing.
    pub(super) const NONE: Self = Self { power: 1.0, offset: 0.0, rest: 0.0, divisor: 1.0 };

    /// As results of type `O` are made.
    pub(super) fn prepared<O: Scaled>(self) -> Affine {
        let rest = if O::SHOWS_REST { self.rest } else { 0.0 };
        Affine { offset: self.offset, rest, divisor: O::prepared(self.divisor) }
    }
}

/// What is measured, and what becomes of it.
pub(super) trait Measure<T: Number + Real>: Copy + Sync {
    type Reducer: Reducer<T>;
    fn reducer(self) -> Self::Reducer;
    /// What is done to elements, by the node of these elements multiplied by `power`; `None` if
    /// there is nothing to do, and the results are null.
    fn found(
        self,
        node: <Self::Reducer as Reducer<T>>::Node,
        count: u64,
        power: f64,
    ) -> Option<Found>;
    /// Whether a row with any null is null as a whole, when rows are measured.
    const WHOLE_ROWS: bool = false;
}

/// A divisor; 1 in place of 0, which leaves the zeros above it alone.
fn not_zero(divisor: f64) -> f64 {
    if divisor == 0.0 { 1.0 } else { divisor }
}

/// A norm.
#[derive(Clone, Copy)]
struct Norm<R>(R);

/// The norm that a node is.
trait NormOf<N> {
    fn norm(self, node: N) -> f64;
}

impl NormOf<f64> for Sums<Magnitude, 1> {
    fn norm(self, sum: f64) -> f64 {
        sum
    }
}

impl NormOf<f64> for Sums<Squared, 1> {
    fn norm(self, squares: f64) -> f64 {
        squares.sqrt()
    }
}

impl<T: Element> NormOf<T> for Extreme<true, true> {
    fn norm(self, largest: T) -> f64 {
        largest.widen()
    }
}

impl<T: Number + Real, R: Reducer<T> + NormOf<R::Node>> Measure<T> for Norm<R> {
    type Reducer = R;
    fn reducer(self) -> R {
        self.0
    }
    fn found(self, node: R::Node, _: u64, power: f64) -> Option<Found> {
        let divisor = self.0.norm(node);
        (divisor != 0.0).then_some(Found { power, divisor, ..Found::NONE })
    }
    const WHOLE_ROWS: bool = true;
}

/// The mean and the standard deviation.
#[derive(Clone, Copy)]
struct Standard;

impl<T: Number + Real> Measure<T> for Standard {
    type Reducer = Sums<Deviation, 2>;
    fn reducer(self) -> Self::Reducer {
        Sums(Deviation)
    }
    fn found(self, spread: Spread, _: u64, power: f64) -> Option<Found> {
        let mean = spread.mean.plus(0.0);
        let divisor = not_zero((spread.squares / spread.count).sqrt());
        Some(Found { power, offset: mean.high, rest: mean.low, divisor })
    }
}

/// The mean.
#[derive(Clone, Copy)]
struct Center;

impl<T: Number + Real> Measure<T> for Center {
    type Reducer = Sums<Itself, 1>;
    fn reducer(self) -> Self::Reducer {
        Sums(Itself)
    }
    fn found(self, sum: f64, count: u64, power: f64) -> Option<Found> {
        // A mean is a number where the sum is none.
        Some(Found { offset: sum / count as f64 / power, ..Found::NONE })
    }
}

/// The smallest and the largest.
#[derive(Clone, Copy)]
struct Bounds;

impl<T: Number + Real> Measure<T> for Bounds {
    type Reducer = Both<Extreme<false, false>, Extreme<true, false>>;
    fn reducer(self) -> Self::Reducer {
        Both(Extreme, Extreme)
    }
    fn found(self, (min, max): (Partial<T>, Partial<T>), _: u64, _: f64) -> Option<Found> {
        let (min, max) = (min.node.widen(), max.node.widen());
        let range = max - min;
        if range.is_infinite() && min.is_finite() && max.is_finite() {
            let (power, offset) = (0.5, min * 0.5);
            return Some(Found { power, offset, rest: 0.0, divisor: max * 0.5 - offset });
        }
        Some(Found { offset: min, divisor: not_zero(range), ..Found::NONE })
    }
}
