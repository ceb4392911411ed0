//! Transforms: a matrix of the same shape, moved and scaled by what it measures of itself.
//!
//! All but softmax are `(x − offset) / divisor`, with one offset and divisor in all, per column or
//! per row; they differ in what these are. Rows are measured and scaled while they are in the
//! cache; columns and the whole matrix take a pass to measure and a pass to scale. What cannot be
//! measured in float64 as it is, is measured and scaled after a multiplication by a power of two.

mod blocks;
mod fit;
mod measure;

use arrow_schema::DataType;

use blocks::{Pattern, PerRow, Softmax};
pub use fit::{Fit, Fitted};
use measure::{Found, Measure, WithMeasure, with_measure};

use super::by_rows::{self, by_rows};
use super::call::{self, Call, Driven, Held, Pass};
use super::fused::{Nulls, Stage, block_step};
use super::reduce::{self, Order, Statistic};
use super::reduction::Reduction;
use super::state::Seen;
use super::{Per, Value, real_type};
use crate::buffer::{collected, vec_of};
use crate::dispatch::{Plan, Work};
use crate::error::Result;
use crate::kernel::{Partial, Scaled};
use crate::matrix::{Matrix, Number};

/// Divides each row (or column, or all) by its norm. A row with a null, or a zero vector, is null;
/// so is a zero column.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Order, Per, normalize}};
///
/// let flat: ArrayRef = Arc::new(Float64Array::from(vec![3.0, 4.0, 0.0, 0.0]));
/// let unit = normalize(&Matrix::reshape(&flat, 2)?, Per::Row, Order::Two)?.to_arrays()?;
/// let expected = Float64Array::from(vec![Some(0.6), Some(0.8), None, None]);
/// assert_eq!(unit[0].as_primitive::<Float64Type>(), &expected);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
///
/// # Errors
///
/// None but those of every call: no memory, an interrupt, a setting.
pub fn normalize(x: &Matrix, per: Per, order: Order) -> Result<Matrix> {
    execute("normalize", Transform::Normalize, x, per, order)
}

/// Subtracts the mean and divides by the standard deviation: of each column, of each row, or of
/// all. Where that is zero, so are the results. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn standardize(x: &Matrix, per: Per) -> Result<Matrix> {
    execute("standardize", Transform::Standardize, x, per, Order::Two)
}

/// Subtracts the mean of each column, of each row, or of all. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn center(x: &Matrix, per: Per) -> Result<Matrix> {
    execute("center", Transform::Center, x, per, Order::Two)
}

/// Moves the smallest element to 0 and the largest to 1: of each column, of each row, or of all.
/// Where they are the same, the results are 0. Nulls are skipped, and stay null.
///
/// # Errors
///
/// As [`normalize`].
pub fn minmax_scale(x: &Matrix, per: Per) -> Result<Matrix> {
    execute("minmax_scale", Transform::MinMaxScale, x, per, Order::Two)
}

/// `e` to the power of each element, by the sum of these over the row. A row with a null is null.
///
/// The largest element of the row is subtracted first, so nothing overflows; the exponential is
/// within 1 ulp and the same on every machine.
///
/// # Errors
///
/// As [`normalize`].
pub fn softmax(x: &Matrix) -> Result<Matrix> {
    execute("softmax", Transform::Softmax, x, Per::Row, Order::Two)
}

/// What rows, columns or a whole matrix are moved and scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Divides by the norm.
    Normalize,
    /// Subtracts the mean, and divides by the standard deviation.
    Standardize,
    /// Subtracts the mean.
    Center,
    /// Moves the smallest element to 0 and the largest to 1.
    MinMaxScale,
    /// The exponentials, by their sum.
    Softmax,
}

impl Transform {
    /// The function that it is.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normalize => "normalize",
            Self::Standardize => "standardize",
            Self::Center => "center",
            Self::MinMaxScale => "minmax_scale",
            Self::Softmax => "softmax",
        }
    }

    /// What is measured first, in a pass of its own, unless rows are measured in the cache.
    fn measured(self) -> Statistic {
        match self {
            Self::Center => Statistic::Mean,
            Self::MinMaxScale => Statistic::Max,
            Self::Normalize | Self::Standardize | Self::Softmax => Statistic::Std,
        }
    }
}

fn execute(
    function: &'static str,
    transform: Transform,
    x: &Matrix,
    per: Per,
    order: Order,
) -> Result<Matrix> {
    call::execute(function, &TransformCall { x: Held::Borrowed(x), transform, per, order })?
        .into_matrix()
}

/// The call of a function of the table.
pub(super) fn bind<'a>(transform: Transform, call: &Call<'a>) -> Result<Box<dyn Driven + 'a>> {
    let (x, per, order) = (call.matrix(0)?, call.per(), call.options.order());
    Ok(Box::new(TransformCall { x, transform, per, order }))
}

/// A call of a transform.
struct TransformCall<'a> {
    x: Held<'a>,
    transform: Transform,
    per: Per,
    order: Order,
}

impl Driven for TransformCall<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let x = &*self.x;
        let scale = ("scale", by_rows::work(x, real_type(x.element_type())));
        if self.per == Per::Row {
            return vec![scale];
        }
        let measure =
            Work { has_vdsp: false, ..reduce::work(x, self.per, self.transform.measured()) };
        vec![("measure", measure), scale]
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let (x, per) = (&*self.x, self.per);
        let made = if self.transform == Transform::Softmax {
            softmax_rows(x, passes[0].plan)
        } else {
            self.with_measure(Scaling { x, per, passes })
        }?;
        Ok(Value::Matrix(made))
    }

    fn like(&self) -> Option<DataType> {
        (self.per == Per::Row).then(|| real_type(self.x.element_type()).clone())
    }

    fn stage(&self, nulls: &Nulls) -> Result<Option<Stage<'_>>> {
        if self.per != Per::Row {
            return Ok(None);
        }
        let x = &*self.x;
        if self.transform == Transform::Softmax {
            let to = real_type(x.element_type());
            return match x.element_type() {
                DataType::Float32 => block_step::<f32, f32, _>(x, to, Softmax, false, nulls),
                _ => block_step::<f64, f64, _>(x, to, Softmax, false, nulls),
            }
            .map(Some);
        }
        self.with_measure(RowStep { x, nulls }).map(Some)
    }
}

impl TransformCall<'_> {
    fn with_measure<V: WithMeasure>(&self, visitor: V) -> V::Out {
        with_measure(self.transform, self.order, self.x.element_type(), visitor)
    }
}

/// Measures and scales rows as a step over tiles.
struct RowStep<'a> {
    x: &'a Matrix,
    nulls: &'a Nulls,
}

impl WithMeasure for RowStep<'_> {
    type Out = Result<Stage<'static>>;

    fn with<T: Number + Scaled, M: Measure<T> + Send + 'static>(self, measure: M) -> Self::Out {
        let to = real_type(self.x.element_type());
        block_step::<T, T, _>(self.x, to, PerRow(measure), true, self.nulls)
    }
}

fn softmax_rows(x: &Matrix, plan: Plan) -> Result<Matrix> {
    let to = real_type(x.element_type());
    match x.element_type() {
        DataType::Float32 => by_rows::<f32, f32, _>(x, to, &Softmax, None, plan),
        _ => by_rows::<f64, f64, _>(x, to, &Softmax, None, plan),
    }
}

/// Measures and scales.
struct Scaling<'a> {
    x: &'a Matrix,
    per: Per,
    passes: &'a [Pass],
}

impl WithMeasure for Scaling<'_> {
    type Out = Result<Matrix>;

    fn with<T: Number + Scaled, M: Measure<T> + Send + 'static>(self, measure: M) -> Self::Out {
        let Self { x, per, passes } = self;
        let to = real_type(x.element_type());
        if per == Per::Row {
            return by_rows::<T, T, _>(x, to, &PerRow(measure), None, passes[0].plan);
        }
        let reduction = Reduction::new(x.view::<T>()?, measure.reducer(), None, passes[0].plan);
        let Seen { nodes, counts } = reduction.seen(per == Per::Column)?;
        let found = (0..nodes.nodes.len()).map(|i| {
            let Partial { node, scale } = nodes.get(i);
            measure.found(node, counts.get(i), scale.power())
        });
        let mut found = collected(found)?;
        if per == Per::Matrix {
            found = vec_of(found.first().copied().flatten(), x.width())?;
        }
        scaled::<T>(x, to, &found, passes[1].plan)
    }
}

/// Scales each column by what was found of it.
fn scaled<T: Number + Scaled>(
    x: &Matrix,
    to: &DataType,
    found: &[Option<Found>],
    plan: Plan,
) -> Result<Matrix> {
    let dead = collected(found.iter().map(Option::is_none))?;
    let pattern = Pattern::new::<T>(found)?;
    by_rows::<T, T, _>(x, to, &pattern, dead.contains(&true).then_some(&dead[..]), plan)
}
