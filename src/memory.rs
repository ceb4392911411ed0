//! Vectors whose size comes from an input: memory that is refused ends the call with
//! [`Error::OutOfMemory`], after what the pool held was given back, and never the process.
//!
//! Loops over tiles, columns and nodes do not return a result for each vector: a refusal unwinds to
//! the nearest [`caught`], which every call, every task and every way in from another language is
//! inside of. In place of std's own, and short enough to be used everywhere:
//!
//! | std | here |
//! |---|---|
//! | `vec![value; len]` | [`filled`] |
//! | `Vec::with_capacity` | [`with_capacity`] |
//! | `vec.reserve`, `resize`, `push`, `extend`, … | [`reserve`], [`resize`], [`push`], [`extend`], … |
//! | `.collect()` | [`Gather::gather`], [`Gather::try_gather`] |
//! | `vec.clone()`, `slice.to_vec()` | [`copied`] |
//!
//! What Arrow allocates itself, such as the fields of a struct, cannot be refused; [`headroom`] asks
//! for as much just before.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use arrow_schema::{FieldRef, Fields};

pub(crate) use crate::buffer::or_released;
use crate::buffer::try_reserve;
use crate::error::{Error, Result};

/// The bytes that the system refused: what a refusal unwinds with.
struct Refused(usize);

/// The bytes that were refused, if that is why `panic` began.
///
/// # Errors
///
/// Any other panic, as it is.
pub(crate) fn refused_bytes(
    panic: Box<dyn Any + Send>,
) -> std::result::Result<usize, Box<dyn Any + Send>> {
    panic.downcast::<Refused>().map(|bytes| bytes.0.max(1))
}

/// Runs `body`; memory that was refused to it is an error.
///
/// # Errors
///
/// Those of `body`, and [`Error::OutOfMemory`].
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| match refused_bytes(panic) {
        Ok(bytes) => Err(Error::OutOfMemory { bytes }),
        Err(panic) => resume_unwind(panic),
    })
}

/// Goes on if memory was granted; else unwinds.
#[inline]
pub(crate) fn granted(memory: std::result::Result<(), usize>) {
    if let Err(bytes) = memory {
        resume_unwind(Box::new(Refused(bytes)));
    }
}

/// Makes sure that the system has so many bytes for what cannot be refused, and leaves them to it.
pub(crate) fn headroom(bytes: usize) {
    granted(try_reserve(&mut Vec::<u8>::new(), bytes));
}

/// Makes room for `more` elements.
#[inline]
pub(crate) fn reserve<T>(vec: &mut Vec<T>, more: usize) {
    if vec.capacity() - vec.len() < more {
        refill(vec, more);
    }
}

#[cold]
fn refill<T>(vec: &mut Vec<T>, more: usize) {
    granted(try_reserve(vec, more));
}

/// Appends an element.
#[inline]
pub(crate) fn push<T>(vec: &mut Vec<T>, item: T) {
    if vec.len() == vec.capacity() {
        refill(vec, vec.len().max(4));
    }
    vec.push(item);
}

/// Appends the items of an iterator.
#[inline]
pub(crate) fn extend<T>(vec: &mut Vec<T>, items: impl IntoIterator<Item = T>) {
    let items = items.into_iter();
    let (min, max) = items.size_hint();
    reserve(vec, min);
    if max == Some(min) {
        vec.extend(items);
    } else {
        items.for_each(|item| push(vec, item));
    }
}

/// Appends what a slice holds.
#[inline]
pub(crate) fn extend_from_slice<T: Clone>(vec: &mut Vec<T>, slice: &[T]) {
    reserve(vec, slice.len());
    vec.extend_from_slice(slice);
}

/// `vec` with `len` elements; those that are new are `value`.
#[inline]
pub(crate) fn resize<T: Clone>(vec: &mut Vec<T>, len: usize, value: T) {
    reserve(vec, len.saturating_sub(vec.len()));
    vec.resize(len, value);
}

/// An empty vector with room for `capacity` elements.
#[inline]
pub(crate) fn with_capacity<T>(capacity: usize) -> Vec<T> {
    let mut vec = Vec::new();
    reserve(&mut vec, capacity);
    vec
}

/// A vector of `len` times `value`.
#[inline]
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut vec = with_capacity(len);
    vec.resize(len, value);
    vec
}

/// A vector of what a slice holds.
#[inline]
pub(crate) fn copied<T: Clone>(slice: &[T]) -> Vec<T> {
    let mut vec = Vec::new();
    extend_from_slice(&mut vec, slice);
    vec
}

/// Bytes that a field takes in all: itself, its name, and what counts its holders.
const FIELD: usize = 320;

/// The fields of a struct.
pub(crate) fn fields<F: Into<FieldRef>>(items: impl ExactSizeIterator<Item = F>) -> Fields {
    headroom(items.len().saturating_mul(FIELD));
    items.map(Into::into).collect()
}

/// The items of an iterator as a vector.
pub(crate) trait Gather: Iterator + Sized {
    /// All items.
    #[inline]
    fn gather(self) -> Vec<Self::Item> {
        let mut vec = Vec::new();
        extend(&mut vec, self);
        vec
    }

    /// All items, or the first error among them.
    ///
    /// # Errors
    ///
    /// Those of the items.
    #[inline]
    fn try_gather<T, E>(self) -> std::result::Result<Vec<T>, E>
    where
        Self: Iterator<Item = std::result::Result<T, E>>,
    {
        let mut vec = with_capacity(self.size_hint().0);
        for item in self {
            push(&mut vec, item?);
        }
        Ok(vec)
    }
}

impl<I: Iterator> Gather for I {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_an_error_and_other_panics_go_on() {
        let most = isize::MAX as usize;
        assert_eq!(caught(|| Ok(filled(0u8, 3))), Ok(vec![0; 3]));
        let refused: [fn() -> Vec<u64>; 4] = [
            || filled(0, 1 << 56),
            || with_capacity(1 << 58),
            || (0..u64::MAX).gather(),
            || (0..u64::MAX).map(Ok::<u64, Error>).try_gather().unwrap_or_default(),
        ];
        for make in refused {
            assert!(matches!(caught(|| Ok(make())), Err(Error::OutOfMemory { .. })));
        }
        let asked = caught(|| {
            headroom(most);
            Ok(())
        });
        assert_eq!(asked, Err(Error::OutOfMemory { bytes: most }));
        let panic = catch_unwind(|| caught::<()>(|| resume_unwind(Box::new("another"))));
        assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"another"));
    }

    #[test]
    fn iterators_of_any_length_are_gathered() {
        assert_eq!((0..100).filter(|i| i % 3 == 0).gather(), (0..100).step_by(3).gather());
        assert_eq!(copied(&[1, 2]), [1, 2]);
        let odd = (0..9).map(|i| if i < 5 { Ok(i) } else { Err(i) }).try_gather();
        assert_eq!(odd, Err(5));
    }
}
