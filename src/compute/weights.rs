//! Weights of rows, columns or elements, lined up with what is reduced.

use super::call::Held;
use super::{Per, Statistic};
use crate::dispatch::run;
use crate::error::{Error, Result};
use crate::matrix::{Matrix, Number, Scratch, View, Weighted, Weights};

/// Weights that were checked against a matrix.
pub(super) struct Aligned<'a>(Weights<Held<'a>>);

const WEIGHTS: &str = "weights";

impl<'a> Aligned<'a> {
    /// Lines weights up with a matrix: plain numbers are one for each row where columns are
    /// reduced, and one for each column where rows are; others are as many as the elements.
    pub(super) fn new(x: &Matrix, per: Per, weights: Held<'a>) -> Result<Self> {
        let what = WEIGHTS;
        let (rows, width) = (x.rows(), x.width());
        let has = |expected: usize, got: usize| match expected == got {
            true => Ok(()),
            false => Err(Error::Rows { what, expected, got }),
        };
        if weights.is_vector() {
            return match per {
                Per::Row => has(width, weights.rows()).map(|()| Self(Weights::Columns(weights))),
                Per::Matrix if width != 1 => Err(Error::Argument {
                    argument: what,
                    expected: "a weight for each element, as axis is None (axis=0 takes one for \
                               each row, axis=1 one for each column)",
                    got: format!("{} weights for {rows} rows of {width}", weights.rows()),
                }),
                Per::Column | Per::Matrix => {
                    has(rows, weights.rows()).map(|()| Self(Weights::Rows(weights)))
                }
            };
        }
        has(rows, weights.rows())?;
        let weights = match weights.is_of_unknown_width() {
            true => Held::Owned(weights.fitted(width)?.into_owned()),
            false => weights,
        };
        if weights.width() != width {
            return Err(Error::Width { what, expected: width, got: weights.width() });
        }
        Ok(Self(Weights::Elements(weights)))
    }

    fn matrix(&self) -> &Matrix {
        match &self.0 {
            Weights::Rows(all) | Weights::Columns(all) | Weights::Elements(all) => all,
        }
    }

    /// The bytes that are read of them.
    pub(super) fn bytes(&self) -> usize {
        self.matrix().bytes()
    }

    /// Refuses weights below zero where they have no meaning: squares would be taken away.
    pub(super) fn check(&self, statistic: Statistic) -> Result<()> {
        if !matches!(statistic, Statistic::Var | Statistic::Std) {
            return Ok(());
        }
        let matrix = self.matrix();
        let view = matrix.view::<f64>()?;
        let mut scratch = Scratch::new();
        run::in_steps(0..matrix.rows() * matrix.width(), 1 << 16, |range| {
            for (part, piece) in view.flat_pieces(range) {
                let first = part.first * view.width + piece.start;
                let values = part.flat(piece, 0.0, &mut scratch);
                if let Some(at) = values.iter().position(|weight| *weight < 0.0) {
                    let (argument, expected) = (WEIGHTS, "weights of 0 or more");
                    let row = (first + at) / view.width;
                    let got = format!("{} in row {row}", values[at]);
                    return Err(Error::Argument { argument, expected, got });
                }
            }
            Ok(())
        })
    }
}

/// A matrix with its weights, as it is reduced.
pub(super) fn weighted<'v, T: Number>(
    x: &'v Matrix,
    weights: Option<&'v Aligned<'_>>,
) -> Result<Weighted<View<'v, T>>> {
    let view = |weights: &'v Matrix| weights.view::<T>();
    let weights = match weights.map(|weights| &weights.0) {
        None => None,
        Some(Weights::Rows(rows)) => Some(Weights::Rows(view(rows)?)),
        Some(Weights::Elements(all)) => Some(Weights::Elements(view(all)?)),
        Some(Weights::Columns(columns)) => Some(Weights::Columns(view(columns)?)),
    };
    Ok(Weighted { x: x.view()?, weights })
}
