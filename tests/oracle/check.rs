//! A call beside its oracle.

use raptors_arrow::compute::Value;
use raptors_arrow::compute::registry::ArgumentKind;
use raptors_arrow::{Error, Matrix};

use super::calls::Call;
use super::forms::{Form, Layout};
use super::spec::Other;
use super::{Outcome, Table};

/// Compares a call with the oracle.
pub fn check_call(call: &Call, x: &Matrix, table: &Table, form: Form) {
    if x.is_vector() && call.is_by_rows() {
        // Refused, or taken as one vector beside another, which has the one element of a row.
        let is_paired =
            call.function.arguments.get(1).map(|y| y.kind) == Some(ArgumentKind::Vectors);
        let is_one = is_paired && matches!(&*call.other, Other::Row(_)) && x.rows() == 1;
        match call.run(x).as_ref().map_err(Error::kind) {
            Ok(Value::Scalar(_)) if is_one => {}
            Err(Error::OneVector { .. } | Error::Width { .. }) if !is_one => {}
            got => panic!("{call} on a vector of {}: {got:?}", x.rows()),
        }
        return;
    }
    let mut expected = call.expected(table);
    let keeps_form =
        ["arithmetic", "comparison", "transforms", "shape"].contains(&call.function.family);
    if keeps_form && form.layout == Layout::Flat && table.width > 0 {
        // A flat array cannot say that a row is null; its elements are.
        expected = expected.map(Outcome::without_null_rows);
    }
    if let Some(difference) = Outcome::difference(&expected, &call.run(x)) {
        let (rows, width) = (table.rows.len(), table.width);
        panic!("{call} on {rows} x {width} {} {form:?}: {difference}", table.element);
    }
}
