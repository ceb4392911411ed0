//! A statistic of columns as DataFusion's aggregate, and its state where there are no groups.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, StructArray, cast::AsArray,
    new_empty_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::arrow::compute::cast;
use datafusion_common::{Result as EngineResult, ScalarValue, internal_err, not_impl_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion_expr::{Accumulator, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};

use super::groups::GroupStates;
use super::scalar::arrow;
use super::{first, given, serial};
use crate::compute::{
    Accumulator as Total, Function, GroupStatistic, Members, Options, Per, ReduceOptions, Statistic,
};
use crate::engine::types::{argument_type, is_list, is_variable, with_element};
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::type_name::TypeName;

/// A statistic with its options.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Aggregate {
    name: String,
    of: Of,
    signature: Signature,
}

/// What is computed.
#[derive(Clone, Copy, Debug)]
struct Of {
    function: &'static Function,
    statistic: Statistic,
    options: ReduceOptions,
}

impl PartialEq for Of {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.function, other.function) && self.options == other.options
    }
}

impl Eq for Of {}

impl Hash for Of {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl Aggregate {
    pub(super) fn new(
        name: &str,
        function: &'static Function,
        statistic: Statistic,
        options: &Options,
    ) -> Result<Self> {
        let (per, options) = function.reduce_options(options)?;
        if per != Per::Column {
            let (argument, expected) = ("function", "a statistic of each column");
            let got = function.name.to_owned();
            return Err(Error::Argument { argument, expected, got }.in_function(function.name));
        }
        Ok(Self {
            name: name.to_owned(),
            of: Of { function, statistic, options },
            signature: Signature::any(1, Volatility::Immutable),
        })
    }

    /// What a column of `x` becomes.
    fn column(&self, x: &FieldRef, is_distinct: bool) -> EngineResult<Column> {
        if is_distinct {
            return not_impl_err!("{} of distinct vectors", self.name);
        }
        let Of { function, statistic, options } = self.of;
        serial(function.name, || {
            let own = argument_type(x.data_type())?;
            if !options.skip_nulls && is_variable(x.data_type()) {
                // A partition that has only nulls would not know how wide they are.
                let (argument, expected) =
                    ("x", "a column of fixed-size lists for skip_nulls=False");
                let got = TypeName(x.data_type()).to_string();
                return Err(Error::Argument { argument, expected, got });
            }
            let to = with_element(x.data_type(), &statistic.result_type(&own.element, false));
            let mut column = Column {
                name: function.name,
                statistic,
                options,
                field: Arc::clone(x),
                to,
                state: DataType::Null,
            };
            // Fields and their types are those of the statistic and the elements, not of the rows.
            column.state = column.of_no_rows()?.state(0)?.data_type().clone();
            Ok(column)
        })
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        internal_err!("{} is asked for its return_field", self.name)
    }

    fn return_field(&self, fields: &[FieldRef]) -> EngineResult<FieldRef> {
        let x = first(fields).map_err(|error| given(error.in_function(self.of.function.name)))?;
        let to = self.column(x, false)?.to;
        // A tensor stays one.
        Ok(Arc::new(Field::new(&self.name, to, true).with_metadata(x.metadata().clone())))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> EngineResult<Vec<FieldRef>> {
        let x = first(args.input_fields).map_err(given)?;
        let state = self.column(x, args.is_distinct)?.state;
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "state"), state, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> EngineResult<Box<dyn Accumulator>> {
        let x = first(args.expr_fields).map_err(given)?;
        let column = self.column(x, args.is_distinct)?;
        Ok(Box::new(OneState { column, total: Mutex::new(None) }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> EngineResult<Box<dyn GroupsAccumulator>> {
        let x = first(args.expr_fields).map_err(given)?;
        Ok(Box::new(GroupStates::new(self.column(x, args.is_distinct)?)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// A statistic of a column of a known type.
#[derive(Debug)]
pub(super) struct Column {
    /// The function, for errors.
    pub(super) name: &'static str,
    pub(super) statistic: Statistic,
    pub(super) options: ReduceOptions,
    pub(super) field: FieldRef,
    /// The type of a result.
    pub(super) to: DataType,
    /// The type of a state.
    pub(super) state: DataType,
}

impl Column {
    /// Batches as one matrix; `None` where no row says how wide it is.
    pub(super) fn matrix(&self, arrays: &[ArrayRef]) -> Result<Option<Matrix>> {
        let Some(first) = arrays.first() else { return Ok(None) };
        let field = self.field.as_ref().clone().with_data_type(first.data_type().clone());
        let matrix = Matrix::from_field(&Arc::new(field), arrays)?;
        Ok(Some(matrix).filter(|matrix| !matrix.is_of_unknown_width()))
    }

    /// The statistic of groups that have no rows.
    pub(super) fn of_no_rows(&self) -> Result<GroupStatistic> {
        let rows = Matrix::from_field(&self.field, &[new_empty_array(self.field.data_type())])?;
        let mut none = GroupStatistic::partial(self.statistic, self.options);
        none.update(&rows, &Members::of_groups(&[], 0)?)?;
        Ok(none)
    }

    /// Results, a row for each group, as a column.
    pub(super) fn results(&self, results: Matrix) -> Result<ArrayRef> {
        let (groups, width) = (results.rows(), results.width());
        let arrays = results.into_lists()?.to_arrays()?;
        let [lists] = &arrays[..] else {
            return Err(Error::Rows { what: "chunks", expected: 1, got: arrays.len() });
        };
        match &self.to {
            DataType::FixedSizeList(item, _) if !is_list(item.data_type()) => {
                cast(lists, &self.to).map_err(arrow)
            }
            to => {
                let values = Arc::clone(lists.as_fixed_size_list().values());
                in_rows(values, groups, width, to)
            }
        }
    }
}

/// Elements as so many rows of a type.
fn in_rows(values: ArrayRef, rows: usize, width: usize, to: &DataType) -> Result<ArrayRef> {
    let offsets = || std::iter::repeat_n(width, rows);
    Ok(match to {
        DataType::FixedSizeList(item, size) => {
            let inner = (*size as usize).max(1);
            let values = in_rows(values, rows * inner, width / inner, item.data_type())?;
            let lists = FixedSizeListArray::try_new(Arc::clone(item), *size, values, None);
            Arc::new(lists.map_err(arrow)?)
        }
        DataType::List(item) => {
            let offsets = OffsetBuffer::<i32>::from_lengths(offsets());
            let lists = ListArray::try_new(Arc::clone(item), offsets, values, None);
            Arc::new(lists.map_err(arrow)?)
        }
        DataType::LargeList(item) => {
            let offsets = OffsetBuffer::<i64>::from_lengths(offsets());
            let lists = LargeListArray::try_new(Arc::clone(item), offsets, values, None);
            Arc::new(lists.map_err(arrow)?)
        }
        _ => values,
    })
}

/// The state of all rows, where there are no groups.
#[derive(Debug)]
struct OneState {
    column: Column,
    /// None before the first rows. Behind a lock since DataFusion shares what it does not change.
    total: Mutex<Option<Total>>,
}

impl OneState {
    fn total(&mut self) -> &mut Option<Total> {
        self.total.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, which stays too: a window asks for a result after every row.
    fn kept(&mut self) -> Result<Option<StructArray>> {
        let Some(total) = self.total().take() else { return Ok(None) };
        let state = total.state()?;
        *self.total() = Some(Total::from_state(&state)?);
        Ok(Some(state))
    }
}

impl Accumulator for OneState {
    fn update_batch(&mut self, values: &[ArrayRef]) -> EngineResult<()> {
        serial(self.column.name, || {
            let Some(rows) = self.column.matrix(&values[..1])? else { return Ok(()) };
            let Column { statistic, options, .. } = self.column;
            let total = match self.total().take() {
                Some(total) => total,
                None => Total::new(statistic, Per::Column, options)?,
            };
            self.total().insert(total).update(&rows)
        })
    }

    fn evaluate(&mut self) -> EngineResult<ScalarValue> {
        let one = serial(self.column.name, || {
            let results = match self.kept()? {
                Some(state) => {
                    let vector = Total::from_state(&state)?.finish()?;
                    let width = vector.len();
                    Matrix::reshape(&vector, width.max(1))?
                }
                // Of no rows, whose width is not known, nothing is.
                None if is_variable(self.column.field.data_type()) => return Ok(None),
                None => self.column.of_no_rows()?.finish(1)?,
            };
            self.column.results(results).map(Some)
        })?;
        match one {
            Some(one) => ScalarValue::try_from_array(&one, 0),
            None => ScalarValue::try_from(&self.column.to),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> EngineResult<Vec<ScalarValue>> {
        let state = serial(self.column.name, || self.kept())?;
        Ok(vec![match state {
            Some(state) => ScalarValue::Struct(Arc::new(state)),
            None => ScalarValue::try_from(&self.column.state)?,
        }])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> EngineResult<()> {
        serial(self.column.name, || {
            let states = states[0].as_struct();
            if states.null_count() == states.len() {
                return Ok(());
            }
            let more = Total::from_state(states)?;
            match self.total() {
                Some(total) => total.merge(more),
                none => {
                    *none = Some(more);
                    Ok(())
                }
            }
        })
    }
}
