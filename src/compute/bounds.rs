//! Bounds that differ from column to column: elements are moved up, then down.

use arrow_schema::DataType;

use super::arithmetic::{Elementwise, Operation};
use super::call::{Call, Driven, Held, Pass};
use super::options::Bound;
use super::{Operand, Value, with_wide};
use crate::buffer::Output;
use crate::dispatch::{Family, Work};
use crate::error::{Error, Result};
use crate::matrix::{Matrix, Number, array_of, size_of_element};

/// The call of `clip` with a list of bounds.
pub(super) fn bind<'a>(call: &Call<'a>, x: Held<'a>) -> Result<Box<dyn Driven + 'a>> {
    let bounds = ["min", "max"].map(|name| (name, call.options.bounds(name)));
    Ok(Box::new(ByColumns { x, bounds }))
}

struct ByColumns<'a> {
    x: Held<'a>,
    bounds: [(&'static str, Bound); 2],
}

impl ByColumns<'_> {
    /// A bound for each column, in the type of `x`: as far as it goes where there is none.
    fn row(&self, name: &'static str, all: &[Option<Operand<'_>>], is_min: bool) -> Result<Matrix> {
        let (x, element) = (&*self.x, self.x.element_type());
        if all.len() != x.width() {
            let (expected, got) = (x.width(), all.len());
            return Err(Error::Width { what: name, expected, got });
        }
        with_wide!(element, T => bounds::<T>(x, name, all, is_min))
    }
}

/// What no element of a type is past.
fn extreme<T: Number>(element: &DataType, is_min: bool) -> T {
    let no_bound = if is_min { T::LOWEST } else { T::HIGHEST };
    if !element.is_integer() {
        return no_bound;
    }
    let bits = size_of_element(element).unwrap_or(8) * 8;
    let values = 1i128 << bits;
    let lowest = if element.is_signed_integer() { -values / 2 } else { 0 };
    T::from_integer(if is_min { lowest } else { lowest + values - 1 }).unwrap_or(no_bound)
}

fn bounds<T: Number>(
    x: &Matrix,
    name: &'static str,
    all: &[Option<Operand<'_>>],
    is_min: bool,
) -> Result<Matrix> {
    let mut row = Output::<T>::new(all.len())?;
    for (out, bound) in row.iter_mut().zip(all) {
        *out = match bound {
            Some(bound) => bound.number::<T>(x).map_err(|error| error.about(name))?,
            None => extreme(x.element_type(), is_min),
        };
    }
    Matrix::reshape(&array_of(row, None, x.element_type())?, 1)
}

impl Driven for ByColumns<'_> {
    fn works(&self) -> Vec<(&'static str, Work)> {
        let size = size_of_element(self.x.element_type()).unwrap_or(8);
        let bytes_written = self.x.rows().saturating_mul(self.x.width()).saturating_mul(size);
        let work = |bytes_read| Work {
            family: Family::Elementwise,
            bytes_read,
            bytes_written,
            has_vdsp: false,
        };
        let given = self.bounds.iter().filter(|(_, bound)| !matches!(bound, Bound::None));
        let names = given.map(|(name, _)| *name).enumerate();
        names
            .map(|(i, name)| (name, work(if i == 0 { self.x.bytes() } else { bytes_written })))
            .collect()
    }

    fn run(&self, passes: &[Pass]) -> Result<Value> {
        let mut result = self.x.clone().into_owned();
        let mut passes = passes.iter();
        for (name, bound) in &self.bounds {
            let is_min = *name == "min";
            let operand = match bound {
                Bound::None => continue,
                Bound::One(number) => number.clone(),
                Bound::PerColumn(all) => {
                    Operand::held_row(Held::Owned(self.row(name, all, is_min)?))
                }
            };
            let operation = if is_min { Operation::AtLeast } else { Operation::AtMost };
            let pass = passes.next().copied();
            let pass = pass.as_slice();
            let made = Elementwise::new(operation, &result, Some(operand)).run_passes(pass);
            result = made.map_err(|error| error.about(name))?;
        }
        Ok(Value::Matrix(result))
    }
}
