//! Random numbers, and the eleven element types as the tests see them: one `Number` that holds a
//! value of any type exactly, and the Arrow arrays of them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use half::f16;

/// A generator with the same numbers on every machine (xorshift64*).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The element types, by the names that `cast` knows.
pub const TYPES: [(&str, DataType); 11] = [
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
    ("float16", DataType::Float16),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
];

/// A value of any element type. A float of 16 or 32 bits is held by the float64 that equals it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Float(f64),
    Int(i64),
    UInt(u64),
}

impl Number {
    /// As float64: rounded for integers beyond 2^53.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Float(x) => x,
            Self::Int(x) => x as f64,
            Self::UInt(x) => x as f64,
        }
    }

    /// An integer, exactly.
    pub fn to_i128(self) -> i128 {
        match self {
            Self::Float(x) => panic!("{x} is no integer type"),
            Self::Int(x) => x.into(),
            Self::UInt(x) => x.into(),
        }
    }

    pub fn is_nan(self) -> bool {
        matches!(self, Self::Float(x) if x.is_nan())
    }

    /// The bits as stored in `element`; any NaN as the canonical one.
    pub fn bits(self, element: &DataType) -> u64 {
        match (self, element) {
            (Self::Float(x), DataType::Float16) => u64::from(half_bits(x)),
            (Self::Float(x), DataType::Float32) if x.is_nan() => 0x7fc0_0000,
            (Self::Float(x), DataType::Float32) => u64::from((x as f32).to_bits()),
            (Self::Float(x), DataType::Float64) if x.is_nan() => 0x7ff8_0000_0000_0000,
            (Self::Float(x), DataType::Float64) => x.to_bits(),
            (yes_or_no, DataType::Boolean) => u64::from(yes_or_no == Self::UInt(1)),
            (integer, other) => {
                let bytes = other.primitive_width().expect("a type of numbers");
                let unused = 64 - 8 * bytes as u32;
                (integer.to_i128() as u64) << unused >> unused
            }
        }
    }
}

/// The smallest and the largest integer of a type.
pub fn limits(element: &DataType) -> (i128, i128) {
    let bits = 8 * element.primitive_width().expect("a type of numbers") as u32;
    if element.is_unsigned_integer() {
        (0, (1 << bits) - 1)
    } else {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    }
}

/// The integer in a type, if it fits.
pub fn integer(element: &DataType, x: i128) -> Option<Number> {
    let (min, max) = limits(element);
    let made = || if min == 0 { Number::UInt(x as u64) } else { Number::Int(x as i64) };
    (min..=max).contains(&x).then(made)
}

/// A float64 rounded once to a type of floats.
pub fn rounded(element: &DataType, x: f64) -> Number {
    Number::Float(match element {
        DataType::Float16 => half_value(x),
        DataType::Float32 => f64::from(x as f32),
        DataType::Float64 => x,
        other => panic!("{other} is no type of floats"),
    })
}

/// Half the distance from 1 to the next number of a type.
pub fn roundoff(element: &DataType) -> f64 {
    match element {
        DataType::Float16 => (-11f64).exp2(),
        DataType::Float32 => (-24f64).exp2(),
        _ => (-53f64).exp2(),
    }
}

/// The unit of the last place of a float16 near `x`, as a power of two.
fn half_exponent(x: f64) -> i32 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    exponent.max(-14) - 10
}

/// Rounded to nearest, ties to even. The `half` crate goes through float32 on some CPUs.
fn half_value(x: f64) -> f64 {
    if !x.is_finite() {
        return x;
    }
    let unit = f64::from(half_exponent(x)).exp2();
    let near = (x / unit).round_ties_even() * unit;
    if near.abs() > 65504.0 { f64::INFINITY.copysign(x) } else { near.copysign(x) }
}

/// The bits of a number that is a float16.
fn half_bits(x: f64) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    if x.is_nan() {
        return 0x7e00;
    }
    if x.is_infinite() {
        return sign | 0x7c00;
    }
    let exponent = half_exponent(x);
    let units = (x.abs() / f64::from(exponent).exp2()) as u16;
    // Normal numbers have 1024 units or more: the first of them is the exponent's own.
    sign | ((((exponent + 24) as u16) << 10) + units)
}

/// A number of everyday size: no operation on two of them overflows an integer type, and `y`, a
/// second operand, is never zero. Floats are of several magnitudes, a few of them zeros.
pub fn tame(element: &DataType, random: &mut Random, y: bool) -> Number {
    if element.is_floating() {
        let scale = [1.0, 1e-3, 1e3, 1e6][random.below(4)];
        let x = match random.below(97) {
            0 => 0.0,
            1 => -0.0,
            _ => random.unit() * scale,
        };
        // The numbers of float16 end at 65504.
        let x = if *element == DataType::Float16 { x / 256.0 } else { x };
        return rounded(element, x);
    }
    // Squares fit; unsigned y are no larger than unsigned x.
    let bits = 8 * element.primitive_width().unwrap() as u32;
    let (min, max) = match (element.is_unsigned_integer(), y) {
        (true, false) => (1i64 << (bits / 2 - 1), (1i64 << (bits / 2)) - 1),
        (true, true) => (1, 1i64 << (bits / 2 - 1)),
        (false, _) => (1, (1i64 << (bits / 2 - 1)) - 1),
    };
    // Small ones are as likely as large ones.
    let span = [(max - min) as u64, 3.min(max - min) as u64][random.below(2)];
    let x = min + (random.next() >> 8) as i64 % (span as i64 + 1);
    let x = if !element.is_unsigned_integer() && random.below(2) == 0 { -x } else { x };
    let x = if !y && !element.is_unsigned_integer() && random.below(9) == 0 { 0 } else { x };
    integer(element, x.into()).unwrap()
}

/// Any number of the type.
pub fn wild(element: &DataType, random: &mut Random) -> Number {
    let bits = random.next();
    if element.is_floating() {
        return rounded(element, f64::from_bits(bits));
    }
    let (min, max) = limits(element);
    integer(element, min + i128::from(bits) % (max - min + 1)).unwrap()
}

/// What is at the edges of a type: what arrays hide under their nulls, too.
pub fn extremes(element: &DataType) -> Vec<Number> {
    if element.is_floating() {
        let (largest, smallest) = match element {
            DataType::Float16 => (65504.0, (-24f64).exp2()),
            DataType::Float32 => (f64::from(f32::MAX), f64::from(f32::from_bits(1))),
            _ => (f64::MAX, f64::from_bits(1)),
        };
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        return [nan, inf, -inf, largest, -largest, smallest, -smallest, 0.0, -0.0]
            .map(Number::Float)
            .to_vec();
    }
    let (min, max) = limits(element);
    let all = [min, max, min + 1, max - 1, 0, -1, 1];
    all.into_iter().filter_map(|x| integer(element, x)).collect()
}

/// A stored type, and its numbers.
trait Stored: ArrowPrimitiveType {
    fn stored(x: Number) -> Self::Native;
    fn number(x: Self::Native) -> Number;
    fn bits(x: Self::Native) -> u64;
}

macro_rules! stored {
    ($($arrow:ty: $x:ident => $stored:expr, $number:expr, $bits:expr;)+) => {$(
        impl Stored for $arrow {
            fn stored($x: Number) -> Self::Native {
                $stored
            }
            fn number($x: Self::Native) -> Number {
                $number
            }
            fn bits($x: Self::Native) -> u64 {
                $bits
            }
        }
    )+};
}

// A NaN goes in with a sign and a payload: it must come out canonical.
stored! {
    Float16Type: x => f16::from_bits(if x.is_nan() { 0xfe01 } else { half_bits(x.to_f64()) }),
        Number::Float(x.to_f64_const()), u64::from(x.to_bits());
    Float32Type: x => if x.is_nan() { f32::from_bits(0xffc0_0001) } else { x.to_f64() as f32 },
        Number::Float(x.into()), u64::from(x.to_bits());
    Float64Type: x => if x.is_nan() { f64::from_bits(0xfff8_0000_0000_0001) } else { x.to_f64() },
        Number::Float(x), x.to_bits();
    Int8Type: x => x.to_i128() as i8, Number::Int(x.into()), u64::from(x as u8);
    Int16Type: x => x.to_i128() as i16, Number::Int(x.into()), u64::from(x as u16);
    Int32Type: x => x.to_i128() as i32, Number::Int(x.into()), u64::from(x as u32);
    Int64Type: x => x.to_i128() as i64, Number::Int(x), x as u64;
    UInt8Type: x => x.to_i128() as u8, Number::UInt(x.into()), x.into();
    UInt16Type: x => x.to_i128() as u16, Number::UInt(x.into()), x.into();
    UInt32Type: x => x.to_i128() as u32, Number::UInt(x.into()), x.into();
    UInt64Type: x => x.to_i128() as u64, Number::UInt(x), x;
}

/// Runs `$body` with `$T` standing for the Arrow type of `$element`.
macro_rules! with_stored {
    ($element:expr, $T:ident => $body:expr) => {
        with_stored!(@each $element, $T => $body; Float16 Float16Type, Float32 Float32Type,
            Float64 Float64Type, Int8 Int8Type, Int16 Int16Type, Int32 Int32Type, Int64 Int64Type,
            UInt8 UInt8Type, UInt16 UInt16Type, UInt32 UInt32Type, UInt64 UInt64Type)
    };
    (@each $element:expr, $T:ident => $body:expr; $($variant:ident $arrow:ty),+) => {
        match $element {
            $(DataType::$variant => {
                type $T = $arrow;
                $body
            })+
            other => panic!("no numbers are stored as {other}"),
        }
    };
}

/// A primitive array whose nulls hide garbage, `offset` elements into its buffers.
pub fn array(element: &DataType, values: &[Option<Number>], offset: usize) -> ArrayRef {
    let hidden = extremes(element);
    let stored = |i: usize| match i.checked_sub(offset).and_then(|i| values.get(i)) {
        Some(Some(value)) => *value,
        _ => hidden[i % hidden.len()],
    };
    let len = offset + values.len();
    let nulls = values.iter().any(Option::is_none).then(|| {
        let is_valid = |i: usize| {
            i.checked_sub(offset).is_some_and(|i| values.get(i).is_some_and(Option::is_some))
        };
        NullBuffer::new(BooleanBuffer::collect_bool(len, is_valid))
    });
    with_stored!(element, T => {
        let buffer: Vec<_> = (0..len + 3).map(|i| T::stored(stored(i))).collect();
        let values = ScalarBuffer::from(buffer).slice(0, len);
        let whole = PrimitiveArray::<T>::new(values, nulls);
        Arc::new(whole.slice(offset, len - offset))
    })
}

/// The numbers of an array.
pub fn options(array: &dyn Array) -> Vec<Option<Number>> {
    with_stored!(array.data_type(), T => {
        let array = array.as_any().downcast_ref::<PrimitiveArray<T>>().unwrap();
        array.iter().map(|x| x.map(T::number)).collect()
    })
}

/// The bits of an array's elements.
pub fn bits(array: &dyn Array) -> Vec<Option<u64>> {
    if let Some(flags) = array.as_boolean_opt() {
        return flags.iter().map(|flag| flag.map(u64::from)).collect();
    }
    with_stored!(array.data_type(), T => {
        let array = array.as_any().downcast_ref::<PrimitiveArray<T>>().unwrap();
        array.iter().map(|x| x.map(<T as Stored>::bits)).collect()
    })
}
