//! A matrix as people see it: its shape, its type and the first of its rows.

use std::fmt::Write as _;

use pyo3::prelude::*;

use super::export;
use super::matrix::dtype;
use crate::matrix::Matrix;

/// Rows that are shown.
const ROWS: usize = 5;
/// Elements of a row that are shown.
const COLUMNS: usize = 8;

fn head(matrix: &Matrix) -> String {
    let (rows, width, dtype) = (matrix.rows(), matrix.width(), dtype(matrix));
    format!("{rows} x {width} {dtype}")
}

/// The elements of a vector as texts, as many as are shown.
fn texts(py: Python<'_>, vector: &Matrix) -> PyResult<Vec<String>> {
    let format = py.import("builtins")?.getattr("format")?;
    let mut texts = Vec::new();
    for chunk in vector.slice(0..COLUMNS).to_arrays()? {
        for i in 0..chunk.len() {
            let number = export::scalar(py, &chunk.slice(i, 1))?;
            let is_float = chunk.data_type().is_floating();
            let spec = if is_float { ".6g" } else { "" };
            texts.push(match number.is_none() {
                true => "null".to_owned(),
                false => format.call1((number, spec))?.extract()?,
            });
        }
    }
    if vector.rows() > COLUMNS {
        texts.push("...".to_owned());
    }
    Ok(texts)
}

/// The rows that are shown: their elements, or `None` for a null row.
fn rows(py: Python<'_>, matrix: &Matrix) -> PyResult<Vec<Option<Vec<String>>>> {
    if matrix.is_vector() {
        return Ok(vec![Some(texts(py, matrix)?)]);
    }
    let row = |i: usize| match matrix.row_vector(i)? {
        Some(vector) => texts(py, &vector).map(Some),
        None => Ok(None),
    };
    (0..matrix.rows().min(ROWS)).map(row).collect()
}

fn has_more(matrix: &Matrix) -> bool {
    !matrix.is_vector() && matrix.rows() > ROWS
}

/// The first line says what it is; each of the others is a row.
pub(super) fn text(py: Python<'_>, matrix: &Matrix) -> PyResult<String> {
    let mut text = format!("<raptors_arrow.Matrix: {}>", head(matrix));
    for row in rows(py, matrix)? {
        let _ = match row {
            Some(elements) => write!(text, "\n [{}]", elements.join(", ")),
            None => write!(text, "\n null"),
        };
    }
    if has_more(matrix) {
        text.push_str("\n ...");
    }
    Ok(text)
}

/// The same as a table.
pub(super) fn html(py: Python<'_>, matrix: &Matrix) -> PyResult<String> {
    let mut html = format!("<table><caption>Matrix: {}</caption>", head(matrix));
    for row in rows(py, matrix)? {
        let cells = row.unwrap_or_else(|| vec!["null".to_owned()]);
        let _ = write!(html, "<tr><td>{}</td></tr>", cells.join("</td><td>"));
    }
    if has_more(matrix) {
        html.push_str("<tr><td>...</td></tr>");
    }
    html.push_str("</table>");
    Ok(html)
}
