//! The rows of groups that have few, as they are: one buffer for all groups.
//!
//! A running state has eight lanes for each column and memory of its own. A stream may have a
//! million groups of a row or two, which are less as rows: they become states when they are more
//! than [`FEW`].

use crate::buffer::try_reserve;
use crate::error::{Error, Result};
use crate::matrix::Number;

/// Rows of a group that are kept as rows: as many as a state has lanes.
pub(super) const FEW: usize = 8;

/// Behind the last row of a group.
const END: u32 = u32::MAX;

/// The rows of one group: indices in the buffer, each of which names the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    len: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: END, last: END, len: 0 };

    pub(super) fn len(self) -> usize {
        self.len as usize
    }
}

/// Rows of many groups.
pub(super) struct FewRows<T> {
    width: usize,
    values: Vec<T>,
    /// The index of the next row of the same group.
    next: Vec<u32>,
    /// Indices whose rows were given up.
    free: Vec<u32>,
}

impl<T: Number> FewRows<T> {
    pub(super) fn new(width: usize) -> Self {
        Self { width, values: Vec::new(), next: Vec::new(), free: Vec::new() }
    }

    /// Whether a group of so many rows may have so many more, all kept as rows.
    pub(super) fn takes(&self, chain: Chain, more: usize) -> bool {
        self.width > 0 && chain.len() + more <= FEW && self.next.len() < END as usize - FEW
    }

    /// Adds a row to a group.
    pub(super) fn push(&mut self, chain: &mut Chain, row: &[T]) -> Result<()> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let out_of_memory = |bytes| Error::OutOfMemory { bytes };
                try_reserve(&mut self.next, 1).map_err(out_of_memory)?;
                try_reserve(&mut self.values, self.width).map_err(out_of_memory)?;
                self.next.push(END);
                self.values.resize(self.next.len() * self.width, T::default());
                self.next.len() as u32 - 1
            }
        };
        let at = index as usize * self.width;
        self.values[at..at + self.width].copy_from_slice(row);
        self.next[index as usize] = END;
        match chain.len {
            0 => chain.first = index,
            _ => self.next[chain.last as usize] = index,
        }
        (chain.last, chain.len) = (index, chain.len + 1);
        Ok(())
    }

    /// The rows of a group, in their order.
    pub(super) fn rows(&self, chain: Chain) -> impl Iterator<Item = &[T]> {
        let indices =
            std::iter::successors(Some(chain.first).filter(|first| *first != END), |at| {
                Some(self.next[*at as usize]).filter(|next| *next != END)
            });
        indices.map(|index| {
            let at = index as usize * self.width;
            &self.values[at..at + self.width]
        })
    }

    /// Gives up the rows of a group.
    pub(super) fn give_up(&mut self, chain: Chain) -> Result<()> {
        try_reserve(&mut self.free, chain.len()).map_err(|bytes| Error::OutOfMemory { bytes })?;
        let mut index = chain.first;
        while index != END {
            self.free.push(index);
            index = self.next[index as usize];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_their_rows_in_order_and_indices_are_used_again() {
        let mut few = FewRows::<f32>::new(2);
        let mut chains = [Chain::EMPTY; 3];
        for i in 0..12 {
            few.push(&mut chains[i % 3], &[i as f32, -(i as f32)]).unwrap();
        }
        let rows =
            |few: &FewRows<f32>, chain| few.rows(chain).map(|row| row[0]).collect::<Vec<_>>();
        assert_eq!(rows(&few, chains[1]), [1.0, 4.0, 7.0, 10.0]);
        assert!(rows(&few, Chain::EMPTY).is_empty());
        assert!(few.takes(chains[1], 4) && !few.takes(chains[1], 5));

        few.give_up(chains[1]).unwrap();
        let mut again = Chain::EMPTY;
        for i in 0..4 {
            few.push(&mut again, &[100.0 + i as f32, 0.0]).unwrap();
        }
        assert_eq!(rows(&few, again), [100.0, 101.0, 102.0, 103.0]);
        assert_eq!(rows(&few, chains[2]), [2.0, 5.0, 8.0, 11.0]);
        assert_eq!(few.next.len(), 12);
    }
}
