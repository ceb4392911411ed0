//! The nearest of rows that come one batch after the other. Scores are those of single rows, so
//! batches of any lengths, and states merged in order, give the bits of the whole.

use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::{Driven, Held, Metric, Nearest, Prepared, TopK, TopKCall, answer};
use crate::compute::real_type;
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::kernel::Best;
use crate::matrix::Matrix;
use crate::memory;

/// The rows nearest to some vectors, of batches that come one after the other.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float32Array, cast::AsArray, types::Int64Type};
/// use raptors_arrow::{Matrix, compute::{Metric, TopKAccumulator}};
///
/// let query: ArrayRef = Arc::new(Float32Array::from(vec![0.0, 0.0]));
/// let mut nearest = TopKAccumulator::new(Matrix::reshape(&query, 1)?, 2, Metric::L2);
/// for batch in [vec![0.0, 1.0, 3.0, 4.0], vec![1.0, 0.5]] {
///     let flat: ArrayRef = Arc::new(Float32Array::from(batch));
///     nearest.update(&Matrix::reshape(&flat, 2)?)?;
/// }
/// assert_eq!(nearest.finish()?.indices.as_primitive::<Int64Type>().values(), &[0, 2]);
/// # Ok::<(), raptors_arrow::Error>(())
/// ```
pub struct TopKAccumulator {
    query: Matrix,
    k: usize,
    metric: Metric,
    /// None before the first batch, which says what elements there are.
    found: Option<Hit>,
    rows: usize,
}

/// What was found so far.
struct Hit {
    element: DataType,
    best: Vec<Best>,
    missing: Option<NullBuffer>,
    is_one: bool,
}

impl std::fmt::Debug for TopKAccumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TopKAccumulator {{ {} by {:?}, {} rows }}", self.k, self.metric, self.rows)
    }
}

impl TopKAccumulator {
    /// Nothing seen yet; the arguments are those of [`top_k`](super::top_k).
    pub fn new(query: Matrix, k: usize, metric: Metric) -> Self {
        Self { query, k, metric, found: None, rows: 0 }
    }

    /// Rows that were seen.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Takes the next rows.
    ///
    /// # Errors
    ///
    /// Those of [`top_k`](super::top_k), and [`Error::Mixed`] if the rows differ in type from those
    /// before.
    pub fn update(&mut self, x: &Matrix) -> Result<()> {
        run::call("top_k", || {
            x.refuse_permuted()?;
            if *x.element_type() == DataType::Boolean {
                return Err(Error::Type {
                    expected: crate::compute::NUMBERS,
                    got: DataType::Boolean,
                });
            }
            if let Some(Hit { element, .. }) = &self.found
                && element != x.element_type()
            {
                let (expected, got) = (element.clone(), x.element_type().clone());
                return Err(Error::Mixed { what: "a batch", expected, got });
            }
            let (query, x) = (Held::Borrowed(&self.query), Held::Borrowed(x));
            let call = TopKCall { x, query, k: self.k, metric: self.metric };
            let passes = Prepared::new(&call as &dyn Driven)?.passes;
            let Nearest { best, missing, is_one, .. } = call.nearest(&passes)?;
            let (element, rows) = (call.x.element_type().clone(), call.x.rows());
            self.join(Hit { element, best, missing, is_one })?;
            self.rows += rows;
            Ok(())
        })
    }

    /// Takes what was found in the rows that follow.
    fn join(&mut self, right: Hit) -> Result<()> {
        let nothing = Best::new(self.k, self.metric.is_similarity());
        let left = self.found.get_or_insert_with(|| Hit {
            best: memory::filled(nothing, right.best.len()),
            element: right.element,
            missing: right.missing,
            is_one: right.is_one,
        });
        for (left, right) in left.best.iter_mut().zip(&right.best) {
            left.try_reserve(right.len()).map_err(|bytes| Error::OutOfMemory { bytes })?;
            left.join_from(right, self.rows);
        }
        Ok(())
    }

    /// Takes the rows that another one saw, after its own.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if it looks for another number of rows or by another metric, and
    /// [`Error::Rows`] for another number of vectors. That they are the same vectors is up to the
    /// caller.
    pub fn merge(&mut self, right: Self) -> Result<()> {
        run::call("top_k", || {
            if (self.k, self.metric) != (right.k, right.metric) {
                let (argument, expected) = ("other", "an accumulator of the same k and metric");
                return Err(Error::Argument { argument, expected, got: format!("{right:?}") });
            }
            let (expected, got) = (self.query.rows(), right.query.rows());
            if expected != got {
                return Err(Error::Rows { what: "other's query", expected, got });
            }
            let rows = right.rows;
            if let Some(found) = right.found {
                if let Some(own) = &self.found
                    && own.element != found.element
                {
                    let (expected, got) = (own.element.clone(), found.element);
                    return Err(Error::Mixed { what: "other", expected, got });
                }
                self.join(found)?;
            }
            self.rows += rows;
            Ok(())
        })
    }

    /// The nearest rows, numbered from the first that came.
    ///
    /// # Errors
    ///
    /// [`Error::Rows`] if no batch came, so that nothing is known of the type.
    pub fn finish(self) -> Result<TopK> {
        run::call("top_k", || {
            let what = "batches";
            let found = self.found.ok_or(Error::Rows { what, expected: 1, got: 0 })?;
            let Hit { element, best, missing, is_one } = found;
            answer(best, is_one, self.k, missing, real_type(&element))
        })
    }
}
