//! Transforms of rows that come in batches, by what was measured of all of them: a first pass
//! updates a [`Fit`], a second applies what it found.
//!
//! The state is the one of `accumulate`, so batches of any lengths give the bits of the whole.

use arrow_schema::DataType;

use super::measure::{Found, Measure, WithMeasure, with_measure};
use super::{Order, Transform, scaled};
use crate::buffer::collected;
use crate::compute::accumulate::{Sequences, columns_of};
use crate::compute::options::Checked;
use crate::compute::registry::{Driver, Function};
use crate::compute::state::Seen;
use crate::compute::{Options, Per, by_rows, real_type, reduce};
use crate::dispatch::{Plan, machine, run};
use crate::error::{Error, Result};
use crate::kernel::{Partial, Real, Scaled};
use crate::matrix::{Matrix, Number, TileWorkspace};
use crate::memory::{self, Gather as _};
use crate::type_name::TypeName;

/// What a transform by columns, or of a whole matrix, measures before it scales.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, cast::AsArray, types::Float64Type};
/// use raptors_arrow::{Matrix, compute::{Fit, Order, Per, Transform}};
///
/// let batches: Vec<ArrayRef> = vec![
///     Arc::new(Float64Array::from(vec![1.0, 2.0])),
///     Arc::new(Float64Array::from(vec![3.0, 6.0])),
/// ];
/// let mut fit = Fit::new(Transform::Center, Per::Column, Order::Two)?;
/// for batch in &batches {
///     fit.update(&Matrix::reshape(batch, 2)?)?;
/// }
/// let fitted = fit.finish()?;
/// let first = fitted.apply(&Matrix::reshape(&batches[0], 2)?)?.to_arrays()?;
/// assert_eq!(first[0].as_primitive::<Float64Type>().values(), &[-1.0, -2.0]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
pub struct Fit {
    transform: Transform,
    per: Per,
    order: Order,
    /// None before the first batch, which says what elements there are.
    state: Option<(DataType, Box<dyn Measuring>)>,
}

impl std::fmt::Debug for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fit {{ {:?} per {} }}", self.transform, self.per)
    }
}

impl Fit {
    /// Nothing measured yet.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for transforms of single rows, which need nothing but the row.
    pub fn new(transform: Transform, per: Per, order: Order) -> Result<Self> {
        if per == Per::Row || transform == Transform::Softmax {
            let (argument, expected) = ("axis", "None or 0, as a row is whole in its batch");
            let error = Error::Argument { argument, expected, got: "1".to_owned() };
            return Err(error.in_function(transform.name()));
        }
        Ok(Self { transform, per, order, state: None })
    }

    /// Measures the next rows.
    ///
    /// # Errors
    ///
    /// [`Error::Mixed`] or [`Error::Width`] if they differ in type or width from those before.
    pub fn update(&mut self, x: &Matrix) -> Result<()> {
        run::call(self.transform.name(), || {
            let Self { transform, per, order, .. } = *self;
            x.refuse_permuted()?;
            if *x.element_type() == DataType::Boolean {
                return Err(Error::Type {
                    expected: crate::compute::NUMBERS,
                    got: DataType::Boolean,
                });
            }
            let (element, state) = self.state.get_or_insert_with(|| {
                let (element, width) = (x.element_type().clone(), x.width());
                let state = with_measure(transform, order, &element, Start { width, per });
                (element, state)
            });
            let x = &*x.fitted(state.width())?;
            check(element, state.width(), x)?;
            state.update(x, &run::planned(&reduce::work(x, per, transform.measured()))?)
        })
    }

    /// What was measured.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type.
    pub fn finish(self) -> Result<Fitted> {
        let function = self.transform.name();
        run::call(function, || {
            let what = "batches";
            let (element, state) = self.state.ok_or(Error::Rows { what, expected: 1, got: 0 })?;
            let width = state.width();
            let mut found = state.found()?;
            if self.per == Per::Matrix {
                found = memory::filled(found.first().copied().flatten(), width);
            }
            Ok(Fitted { function, element, width, found })
        })
    }
}

impl Function {
    /// What it measures before it scales, if it is a transform by columns or of a whole matrix.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] for other functions, and those of its options.
    pub fn fit(&'static self, options: &Options) -> Result<Fit> {
        run::call(self.name, || {
            let checked = Checked::new(self.options, options)?;
            let Driver::Transform(transform) = self.driver else {
                let (argument, expected) = ("function", "a transform by columns, such as center");
                let got = self.name.to_owned();
                return Err(Error::Argument { argument, expected, got });
            };
            if let Some(dtype) = checked.dtype() {
                let expected = "None for what is fitted: cast x first".to_owned();
                let got = TypeName(dtype).to_string();
                return Err(Error::OptionValue { option: "dtype", expected, got });
            }
            let per = self.axis.unwrap_or_else(|| checked.per());
            Fit::new(transform, per, checked.order())
        })
    }
}

/// What was measured of all rows, to be applied to each batch of them.
#[derive(Debug)]
pub struct Fitted {
    function: &'static str,
    element: DataType,
    width: usize,
    found: Vec<Option<Found>>,
}

impl Fitted {
    /// Moves and scales rows by what was measured.
    ///
    /// # Errors
    ///
    /// [`Error::Mixed`] or [`Error::Width`] if they differ in type or width from those measured.
    pub fn apply(&self, x: &Matrix) -> Result<Matrix> {
        run::call(self.function, || {
            let x = &*x.fitted(self.width)?;
            check(&self.element, self.width, x)?;
            let to = real_type(x.element_type());
            let plan = run::planned(&by_rows::work(x, to))?;
            match x.element_type() {
                DataType::Float32 => scaled::<f32>(x, to, &self.found, plan),
                _ => scaled::<f64>(x, to, &self.found, plan),
            }
        })
    }
}

/// Refuses rows of another type or width.
fn check(element: &DataType, width: usize, x: &Matrix) -> Result<()> {
    let what = "a batch";
    if x.element_type() != element {
        let (expected, got) = (element.clone(), x.element_type().clone());
        return Err(Error::Mixed { what, expected, got });
    }
    if x.width() != width {
        return Err(Error::Width { what, expected: width, got: x.width() });
    }
    Ok(())
}

/// The state of a measure of some type.
trait Measuring: Send {
    fn width(&self) -> usize;
    fn update(&mut self, x: &Matrix, plan: &Plan) -> Result<()>;
    /// What is done to each column, or to all.
    fn found(self: Box<Self>) -> Result<Vec<Option<Found>>>;
}

/// Makes the state of a measure.
struct Start {
    width: usize,
    per: Per,
}

impl WithMeasure for Start {
    type Out = Box<dyn Measuring>;

    fn with<T: Number + Scaled, M: Measure<T> + Send + 'static>(self, measure: M) -> Self::Out {
        Box::new(Measured::<T, M>::new(self.width, self.per, measure))
    }
}

/// Columns, and what was seen of them.
type MeasuredColumns<T, R> = (std::ops::Range<usize>, Sequences<T, R>);

struct Measured<T: Number + Real, M: Measure<T>> {
    width: usize,
    measure: M,
    sequences: Vec<MeasuredColumns<T, M::Reducer>>,
}

impl<T: Number + Real, M: Measure<T>> Measured<T, M> {
    fn new(width: usize, per: Per, measure: M) -> Self {
        let sequences = columns_of(per, width)
            .map(|columns| {
                let running = Sequences::new(measure.reducer(), per, columns.len());
                (columns, running)
            })
            .gather();
        Self { width, measure, sequences }
    }
}

impl<T: Number + Real, M: Measure<T> + Send> Measuring for Measured<T, M> {
    fn width(&self) -> usize {
        self.width
    }

    fn update(&mut self, x: &Matrix, plan: &Plan) -> Result<()> {
        let (view, level) = (x.view::<T>()?, plan.level(machine()));
        let tasks = self.sequences.iter_mut().gather();
        run::each_while(plan, tasks, TileWorkspace::default, |workspace, task, go_on| {
            let (columns, sequences) = task;
            sequences.update(level, &view, columns.clone(), workspace, go_on);
        })
    }

    fn found(self: Box<Self>) -> Result<Vec<Option<Found>>> {
        let Self { measure, sequences, .. } = *self;
        let mut found = Vec::new();
        for (columns, sequences) in sequences {
            let Seen { nodes, counts } = sequences.pause().nodes(measure.reducer());
            let each = (0..columns.len()).map(|i| {
                let Partial { node, scale } = nodes.get(i);
                measure.found(node, counts.get(i), scale.power())
            });
            found.append(&mut collected(each)?);
        }
        Ok(found)
    }
}
