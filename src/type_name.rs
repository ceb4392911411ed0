//! The names of Arrow types as people read them: in messages, never in data.

use std::fmt::{self, Display};

use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit, UnionMode};

/// Fields of a struct, and levels of a nested type, that a name shows; there may be thousands.
const MOST_FIELDS: usize = 8;
const MOST_LEVELS: usize = 8;

/// A type that prints as pyarrow does (`list<item: int8>`, `timestamp[ns]`, `string_view`), but for
/// floats, which have the names that `cast` takes: `float` is 32 bits to pyarrow and 64 to NumPy.
pub(crate) struct TypeName<'a>(pub(crate) &'a DataType);

impl Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, MOST_LEVELS)
    }
}

fn write(f: &mut fmt::Formatter<'_>, data_type: &DataType, levels: usize) -> fmt::Result {
    let Some(levels) = levels.checked_sub(1) else { return f.write_str("...") };
    let list = |f: &mut fmt::Formatter<'_>, name: &str, item: &Field| {
        write!(f, "{name}<")?;
        field(f, item, levels)?;
        f.write_str(">")
    };
    match data_type {
        DataType::Boolean => f.write_str("bool"),
        DataType::Timestamp(unit, None) => write!(f, "timestamp[{}]", short(*unit)),
        DataType::Timestamp(unit, Some(zone)) => {
            write!(f, "timestamp[{}, tz={zone}]", short(*unit))
        }
        DataType::Date32 => f.write_str("date32[day]"),
        DataType::Date64 => f.write_str("date64[ms]"),
        DataType::Time32(unit) => write!(f, "time32[{}]", short(*unit)),
        DataType::Time64(unit) => write!(f, "time64[{}]", short(*unit)),
        DataType::Duration(unit) => write!(f, "duration[{}]", short(*unit)),
        DataType::Interval(IntervalUnit::YearMonth) => f.write_str("month_interval"),
        DataType::Interval(IntervalUnit::DayTime) => f.write_str("day_time_interval"),
        DataType::Interval(IntervalUnit::MonthDayNano) => f.write_str("month_day_nano_interval"),
        DataType::Utf8 => f.write_str("string"),
        DataType::LargeUtf8 => f.write_str("large_string"),
        DataType::Utf8View => f.write_str("string_view"),
        DataType::LargeBinary => f.write_str("large_binary"),
        DataType::BinaryView => f.write_str("binary_view"),
        DataType::FixedSizeBinary(size) => write!(f, "fixed_size_binary[{size}]"),
        DataType::List(item) => list(f, "list", item),
        DataType::LargeList(item) => list(f, "large_list", item),
        DataType::ListView(item) => list(f, "list_view", item),
        DataType::LargeListView(item) => list(f, "large_list_view", item),
        DataType::FixedSizeList(item, size) => {
            list(f, "fixed_size_list", item)?;
            write!(f, "[{size}]")
        }
        DataType::Struct(of) => {
            f.write_str("struct<")?;
            several(f, of.iter().map(AsRef::as_ref), levels)?;
            f.write_str(">")
        }
        DataType::Union(of, mode) => {
            let mode = if *mode == UnionMode::Sparse { "sparse" } else { "dense" };
            write!(f, "{mode}_union<")?;
            several(f, of.iter().map(|(_, field)| field.as_ref()), levels)?;
            f.write_str(">")
        }
        DataType::Map(entries, _) => {
            f.write_str("map<")?;
            match entries.data_type() {
                DataType::Struct(pair) => several(f, pair.iter().map(AsRef::as_ref), levels)?,
                other => write(f, other, levels)?,
            }
            f.write_str(">")
        }
        DataType::Dictionary(keys, values) => {
            f.write_str("dictionary<values=")?;
            write(f, values, levels)?;
            f.write_str(", indices=")?;
            write(f, keys, levels)?;
            f.write_str(">")
        }
        DataType::RunEndEncoded(ends, values) => {
            f.write_str("run_end_encoded<")?;
            several(f, [ends.as_ref(), values.as_ref()].into_iter(), levels)?;
            f.write_str(">")
        }
        DataType::Decimal32(digits, scale) => write!(f, "decimal32({digits}, {scale})"),
        DataType::Decimal64(digits, scale) => write!(f, "decimal64({digits}, {scale})"),
        DataType::Decimal128(digits, scale) => write!(f, "decimal128({digits}, {scale})"),
        DataType::Decimal256(digits, scale) => write!(f, "decimal256({digits}, {scale})"),
        // Of null, numbers and binary the two names differ in the case alone.
        plain => f.write_str(&plain.to_string().to_lowercase()),
    }
}

fn field(f: &mut fmt::Formatter<'_>, field: &Field, levels: usize) -> fmt::Result {
    write!(f, "{}: ", field.name())?;
    write(f, field.data_type(), levels)?;
    if field.is_nullable() { Ok(()) } else { f.write_str(" not null") }
}

fn several<'a>(
    f: &mut fmt::Formatter<'_>,
    fields: impl Iterator<Item = &'a Field>,
    levels: usize,
) -> fmt::Result {
    for (i, one) in fields.enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        if i == MOST_FIELDS {
            return f.write_str("...");
        }
        field(f, one, levels)?;
    }
    Ok(())
}

fn short(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn named(data_type: &DataType) -> String {
        TypeName(data_type).to_string()
    }

    #[test]
    fn types_have_the_names_that_people_know() {
        let item = |data_type: DataType| Arc::new(Field::new("item", data_type, true));
        for (data_type, name) in [
            (DataType::Null, "null"),
            (DataType::UInt16, "uint16"),
            (DataType::Float32, "float32"),
            (DataType::Utf8View, "string_view"),
            (DataType::Binary, "binary"),
            (DataType::Decimal128(5, 2), "decimal128(5, 2)"),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), "timestamp[ns]"),
            (DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), "timestamp[s, tz=UTC]"),
            (DataType::List(item(DataType::Utf8)), "list<item: string>"),
            (
                DataType::FixedSizeList(item(DataType::Float64), 3),
                "fixed_size_list<item: float64>[3]",
            ),
            (
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
                "dictionary<values=string, indices=int32>",
            ),
            (
                DataType::Struct(vec![Field::new("a", DataType::Int8, false)].into()),
                "struct<a: int8 not null>",
            ),
        ] {
            assert_eq!(named(&data_type), name);
        }
    }

    #[test]
    fn deep_and_wide_types_are_cut_short() {
        let wide: Vec<Field> =
            (0..1000).map(|i| Field::new(i.to_string(), DataType::Int8, true)).collect();
        let name = named(&DataType::Struct(wide.into()));
        assert!(name.ends_with("7: int8, ...>"), "{name}");
        let mut deep = DataType::Int8;
        for _ in 0..100 {
            deep = DataType::List(Arc::new(Field::new("item", deep, true)));
        }
        let name = named(&deep);
        assert!(name.contains("item: ...>") && name.len() < 200, "{name}");
    }
}
