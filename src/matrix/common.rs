//! Types that meet: the common type of several columns, and elements that are read in another type
//! than they are stored in, a tile at a time.

use std::borrow::Cow;

use arrow_schema::DataType;

use super::{Matrix, size_of_element};

/// Bits of an integer, and whether it has a sign.
fn integer(element: &DataType) -> Option<(usize, bool)> {
    let bits = size_of_element(element).filter(|_| element.is_integer())? * 8;
    Some((bits, element.is_signed_integer()))
}

fn integer_of(bits: usize, is_signed: bool) -> DataType {
    match (bits, is_signed) {
        (8, true) => DataType::Int8,
        (16, true) => DataType::Int16,
        (32, true) => DataType::Int32,
        (64, true) => DataType::Int64,
        (8, false) => DataType::UInt8,
        (16, false) => DataType::UInt16,
        (32, false) => DataType::UInt32,
        (64, false) => DataType::UInt64,
        // No integer holds both signs of 64 bits.
        _ => DataType::Float64,
    }
}

/// The narrowest float that NumPy pairs with a type.
fn float_for(element: &DataType) -> DataType {
    match integer(element) {
        Some((8, _)) => DataType::Float16,
        Some((16, _)) => DataType::Float32,
        Some(_) => DataType::Float64,
        None if element.is_floating() => element.clone(),
        None => DataType::Float16,
    }
}

fn wider(a: DataType, b: DataType) -> DataType {
    if size_of_element(&a) < size_of_element(&b) { b } else { a }
}

/// The type in which all of some numbers are seen, by NumPy's rule: with a float among them, the
/// widest of the floats that each needs; else an integer that holds all of them, or float64 where
/// none does. `None` of nothing.
pub(crate) fn common_type<'a>(all: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    if all.clone().any(DataType::is_floating) {
        return all.map(float_for).reduce(wider);
    }
    all.cloned().reduce(|a, b| match (integer(&a), integer(&b)) {
        (Some(x), Some(y)) if x.1 == y.1 => wider(a, b),
        (Some(x), Some(y)) => {
            let (signed, unsigned) = if x.1 { (x.0, y.0) } else { (y.0, x.0) };
            integer_of(signed.max(2 * unsigned), true)
        }
        // A yes or no is 0 or 1; float64 came of integers that have no type in common.
        (None, _) if a == DataType::Boolean => b,
        (_, None) if b == DataType::Boolean => a,
        _ => DataType::Float64,
    })
}

/// Whether each number of a stored type is one of `element`, or rounded once to it where it is
/// float64: then it is read as such.
fn is_read_as(stored: &DataType, element: &DataType) -> bool {
    let both = [stored, element];
    element == stored
        || *element == DataType::Float64
        || common_type(both.into_iter()).as_ref() == Some(element) && *element != DataType::Boolean
}

impl Matrix {
    /// Whether some of its elements are stored in another type than they are seen in.
    pub(crate) fn is_converted(&self) -> bool {
        self.chunks.iter().any(|chunk| !chunk.stored.is_empty())
    }

    /// The same, with 1 and 0 for yes and no.
    pub(crate) fn as_numbers(&self) -> Cow<'_, Self> {
        match self.element {
            // As they lie, they are bytes of 1 or 0.
            DataType::Boolean => Cow::Owned(self.retyped(&DataType::UInt8)),
            _ => Cow::Borrowed(self),
        }
    }

    /// Bytes of which all but 0 are yes, as NumPy has them, said to be such.
    #[cfg(feature = "python")]
    pub(crate) fn as_flags(&self) -> Self {
        self.retyped(&DataType::Boolean)
    }

    /// The same elements, seen in another type: converted as they are read, a tile at a time. `None`
    /// if that type does not hold them all.
    pub(crate) fn seen_as(&self, element: &DataType) -> Option<Self> {
        if self.element == *element {
            return Some(self.clone());
        }
        let mut chunks = self.chunks.clone();
        for chunk in &mut chunks {
            let stored = match chunk.stored.is_empty() {
                true => vec![self.element.clone()],
                false => std::mem::take(&mut chunk.stored),
            };
            if !stored.iter().all(|stored| is_read_as(stored, element)) {
                return None;
            }
            chunk.stored = stored;
        }
        Some(Self { chunks, ..self.retyped(element) })
    }
}

#[cfg(test)]
mod tests {
    use DataType::{Boolean, Float16, Float32, Float64, Int8, Int16, Int32, Int64};
    use DataType::{UInt8, UInt16, UInt32, UInt64};
    use arrow_schema::DataType;

    use super::common_type;

    #[test]
    fn types_meet_as_numpy_has_it() {
        for (all, common) in [
            (&[Int8, UInt8][..], Int16),
            (&[UInt32, Int8], Int64),
            (&[UInt64, Int8], Float64),
            (&[UInt64, Int8, Int16], Float64),
            (&[UInt16, UInt64], UInt64),
            (&[Int8, Float16], Float16),
            (&[UInt16, Float16], Float32),
            (&[Int32, Float32], Float64),
            (&[Int16, UInt16, Float32], Float32),
            (&[Boolean, Int32], Int32),
            (&[Float32, Boolean], Float32),
            (&[Boolean, Boolean], Boolean),
            (&[Int64], Int64),
        ] {
            assert_eq!(common_type(all.iter()), Some(common), "{all:?}");
        }
        assert_eq!(common_type([].iter()), None);
    }
}
