//! Random numbers, and the two element types as the tests see them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

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

pub trait Number: ArrowNativeType + Sync {
    type Arrow: ArrowPrimitiveType<Native = Self>;
    const TYPE: DataType;
    /// Half the distance from 1 to the next number.
    const ROUNDOFF: f64;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    /// The bits, all NaNs alike canonical.
    fn bits(self) -> u64;
    /// What must never show: written under nulls.
    fn garbage(i: usize) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;

    fn random(random: &mut Random) -> Self {
        let scale = [1.0, 1e-3, 1e3, 1e6][random.below(4)];
        match random.below(97) {
            0 => Self::from_f64(0.0),
            1 => Self::from_f64(-0.0),
            _ => Self::from_f64(random.unit() * scale),
        }
    }

    fn options(array: &dyn Array) -> Vec<Option<Self>> {
        array.as_primitive::<Self::Arrow>().iter().collect()
    }

    /// A primitive array whose nulls hide garbage, `offset` elements into its buffers.
    fn array(values: &[Option<Self>], offset: usize) -> ArrayRef {
        let stored = |i: usize| match i.checked_sub(offset).and_then(|i| values.get(i)) {
            Some(Some(value)) => *value,
            _ => Self::garbage(i),
        };
        let len = offset + values.len();
        let buffer: Vec<Self> = (0..len + 3).map(stored).collect();
        let nulls = values.iter().any(Option::is_none).then(|| {
            let is_valid = |i: usize| {
                i.checked_sub(offset).is_some_and(|i| values.get(i).is_some_and(Option::is_some))
            };
            NullBuffer::new(BooleanBuffer::collect_bool(len, is_valid))
        });
        let values = ScalarBuffer::<Self>::from(buffer).slice(0, len);
        let whole = PrimitiveArray::<Self::Arrow>::new(values, nulls);
        let array = whole.slice(offset, len - offset);
        Arc::new(array)
    }
}

macro_rules! number {
    ($t:ty, $arrow:ty, $type:ident, $roundoff:expr) => {
        impl Number for $t {
            type Arrow = $arrow;
            const TYPE: DataType = DataType::$type;
            const ROUNDOFF: f64 = $roundoff;
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }
            fn garbage(i: usize) -> Self {
                [<$t>::NAN, <$t>::INFINITY, <$t>::NEG_INFINITY, <$t>::MAX, -7.25][i % 5]
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn over(self, other: Self) -> Self {
                self / other
            }
        }
    };
}

number!(f32, Float32Type, Float32, 1.0 / (1u64 << 24) as f64);
number!(f64, Float64Type, Float64, 1.0 / (1u64 << 53) as f64);
