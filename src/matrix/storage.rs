//! The stored types, and how tiles of them are read and written in the types kernels compute on, at
//! the instruction set that plans of the calling thread have.

use std::any::TypeId;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use half::f16;
use pulp::bytemuck::Pod;

use crate::dispatch::vendor::Vendor;
use crate::dispatch::{Level, settings};
use crate::kernel::{Body, Element, Flag, Narrow, Simd, Stored, Wide, read, write};

/// A type that kernels compute on, with the Arrow type that stores it.
pub(crate) trait Number: Element + Vendor + ArrowNativeType + Pod {
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// How a stored type is read as this one; `None` for a type that is not.
    fn reader(stored: &DataType) -> Option<Reader<Self>>;
    /// How this one is written as a stored type; `None` for what is no type of numbers.
    fn writer(stored: &DataType) -> Option<Writer<Self>>;
}

/// How elements of a stored type are read as `W`.
#[derive(Clone, Copy)]
pub(crate) struct Reader<W: 'static> {
    /// Bytes of a stored element.
    pub(crate) size: usize,
    /// Whether it is stored as `W` itself, and need not be converted.
    pub(crate) is_same: bool,
    pub(crate) level: Level,
    read: fn(Level, &[u8], &mut [W]),
}

/// How `W` is written to a stored type.
#[derive(Clone, Copy)]
pub(crate) struct Writer<W: 'static> {
    /// Bytes of a stored element.
    pub(crate) size: usize,
    /// Whether it is stored as `W` itself, and need not be converted.
    pub(crate) is_same: bool,
    level: Level,
    write: fn(Level, &[W], &mut [u8]) -> bool,
}

impl<W: Number> Reader<W> {
    fn of<T: Stored<SIZE> + Wide<W> + 'static, const SIZE: usize>() -> Option<Self> {
        let read = |level: Level, bytes: &[u8], out: &mut [W]| {
            level.run(Read::<T, W, SIZE>(bytes, out, []));
        };
        let is_same = TypeId::of::<T>() == TypeId::of::<W>();
        Some(Self { size: SIZE, is_same, level: settings::level(), read })
    }

    /// Reads as many elements as `out` has.
    pub(crate) fn read(&self, bytes: &[u8], out: &mut [W]) {
        (self.read)(self.level, bytes, out);
    }
}

impl<W: Number> Writer<W> {
    fn of<T: Stored<SIZE> + Narrow<W> + 'static, const SIZE: usize>() -> Option<Self> {
        let write =
            |level: Level, x: &[W], bytes: &mut [u8]| level.run(Write::<T, W, SIZE>(x, bytes, []));
        let is_same = TypeId::of::<T>() == TypeId::of::<W>();
        Some(Self { size: SIZE, is_same, level: settings::level(), write })
    }

    /// Writes all elements of `x`; whether any did not fit.
    pub(crate) fn write(&self, x: &[W], bytes: &mut [u8]) -> bool {
        (self.write)(self.level, x, bytes)
    }

    /// Whether a number fits.
    pub(crate) fn holds(&self, x: W) -> bool {
        let mut bytes = [0; 8];
        !self.write(&[x], &mut bytes[..self.size])
    }
}

/// Bytes in which a matrix holds an element of a type: one for a yes or no, whatever Arrow does.
pub(crate) fn size_of_element(element: &DataType) -> Option<usize> {
    match element {
        DataType::Boolean => Some(1),
        number => number.primitive_width(),
    }
}

/// A number as a stored type holds it, if it can: rounded, if need be, to a float.
pub(crate) fn held<W: Number>(x: W, stored: &DataType) -> Option<W> {
    let (reader, writer) = (W::reader(stored)?, W::writer(stored)?);
    let mut bytes = [0; 8];
    let mut held = [x];
    if writer.write(&held, &mut bytes[..writer.size]) {
        return None;
    }
    reader.read(&bytes[..reader.size], &mut held);
    Some(held[0])
}

struct Read<'a, T, W, const SIZE: usize>(&'a [u8], &'a mut [W], [T; 0]);

impl<T: Stored<SIZE> + Wide<W>, W, const SIZE: usize> Body for Read<'_, T, W, SIZE> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        read::<T, W, SIZE>(self.0, self.1);
    }
}

struct Write<'a, T, W, const SIZE: usize>(&'a [W], &'a mut [u8], [T; 0]);

impl<T: Stored<SIZE> + Narrow<W>, W: Copy, const SIZE: usize> Body for Write<'_, T, W, SIZE> {
    type Out = bool;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> bool {
        write::<T, W, SIZE>(self.0, self.1)
    }
}

/// The conversion of each stored type that there is one for.
macro_rules! by_type {
    ($which:ident, $stored:expr; $($variant:ident $t:ty),+) => {
        match $stored {
            $(DataType::$variant => $which::of::<$t, { std::mem::size_of::<$t>() }>(),)+
            _ => None,
        }
    };
}

macro_rules! numbers {
    ($($w:ty = $arrow:ty, from $($variant:ident $t:ty),+;)+) => {$(
        impl Number for $w {
            type Arrow = $arrow;

            fn reader(stored: &DataType) -> Option<Reader<Self>> {
                by_type!(Reader, stored; $($variant $t),+)
            }
            fn writer(stored: &DataType) -> Option<Writer<Self>> {
                by_type!(Writer, stored; Float16 f16, Float32 f32, Float64 f64, Int8 i8, Int16 i16,
                    Int32 i32, Int64 i64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Boolean Flag)
            }
        }
    )+};
}

numbers! {
    f32 = Float32Type, from Float16 f16, Float32 f32, Int8 i8, Int16 i16, UInt8 u8, UInt16 u16,
        Boolean Flag;
    // Every type: what functions that give floats compute on.
    f64 = Float64Type, from Float16 f16, Float32 f32, Float64 f64, Int8 i8, Int16 i16, Int32 i32,
        Int64 i64, UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Boolean Flag;
    i64 = Int64Type, from Int8 i8, Int16 i16, Int32 i32, Int64 i64, UInt8 u8, UInt16 u16,
        UInt32 u32, Boolean Flag;
    u64 = UInt64Type, from UInt8 u8, UInt16 u16, UInt32 u32, UInt64 u64, Boolean Flag;
}

/// Integers that are narrower than what kernels compute on: sums, differences and products alone
/// are made of them as they are, and stored as they are.
macro_rules! narrow_numbers {
    ($($t:ty = $arrow:ty, $variant:ident;)+) => {$(
        impl Number for $t {
            type Arrow = $arrow;

            fn reader(stored: &DataType) -> Option<Reader<Self>> {
                by_type!(Reader, stored; $variant $t)
            }
            fn writer(stored: &DataType) -> Option<Writer<Self>> {
                by_type!(Writer, stored; $variant $t)
            }
        }
    )+};
}

narrow_numbers! {
    i8 = Int8Type, Int8;
    i16 = Int16Type, Int16;
    i32 = Int32Type, Int32;
    u8 = UInt8Type, UInt8;
    u16 = UInt16Type, UInt16;
    u32 = UInt32Type, UInt32;
}
