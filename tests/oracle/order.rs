//! The order of additions of docs/guide/numbers.md, as simply as it can be said: leaves of 1024,
//! lanes of 8, a binary tree.

pub const LEAF: usize = 1024;

/// The sum of a leaf: element `i` is added to lane `i mod 8`.
pub fn leaf_sum(leaf: impl IntoIterator<Item = f64>) -> f64 {
    let mut lanes = [-0.0; 8];
    for (i, v) in leaf.into_iter().enumerate() {
        lanes[i % 8] += v;
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Joins leaves: the largest power of two below their number goes left.
pub fn tree<N: Copy>(leaves: &[N], join: &impl Fn(N, N) -> N) -> Option<N> {
    match leaves {
        [] => None,
        [one] => Some(*one),
        _ => {
            let left = leaves.len().next_power_of_two() / 2;
            Some(join(tree(&leaves[..left], join)?, tree(&leaves[left..], join)?))
        }
    }
}

/// The sum of a sequence. A null is −0.0 in its place.
pub fn ordered_sum(x: &[f64]) -> f64 {
    let leaves: Vec<f64> = x.chunks(LEAF).map(|leaf| leaf_sum(leaf.iter().copied())).collect();
    tree(&leaves, &|a, b| a + b).unwrap_or(-0.0)
}

/// Count, mean, and sum of squared distances from the mean.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub count: f64,
    pub mean: f64,
    pub squares: f64,
}

/// The spread of a sequence: in each leaf around its first valid element, joined as Chan, Golub
/// and LeVeque say.
pub fn spread(x: &[Option<f64>]) -> Spread {
    let leaves: Vec<Spread> = x.chunks(LEAF).map(leaf_spread).collect();
    let nothing = Spread { count: 0.0, mean: 0.0, squares: 0.0 };
    tree(&leaves, &join).unwrap_or(nothing)
}

fn leaf_spread(leaf: &[Option<f64>]) -> Spread {
    let count = leaf.iter().flatten().count() as f64;
    let Some(shift) = leaf.iter().flatten().next().copied() else {
        return Spread { count, mean: 0.0, squares: 0.0 };
    };
    // A null is as far from the shift as the shift itself.
    let distance = |x: &Option<f64>| x.unwrap_or(shift) - shift;
    let sum = leaf_sum(leaf.iter().map(distance));
    let squares = leaf_sum(leaf.iter().map(|x| distance(x) * distance(x)));
    let mean = sum / count;
    let around = squares - sum * mean;
    let squares = if squares == f64::INFINITY && sum.is_finite() {
        // Finite numbers so far apart that their squares overflow.
        f64::INFINITY
    } else if around < 0.0 {
        0.0
    } else {
        around
    };
    Spread { count, mean: shift + mean, squares }
}

fn join(left: Spread, right: Spread) -> Spread {
    if left.count == 0.0 {
        return right;
    }
    if right.count == 0.0 {
        return left;
    }
    let count = left.count + right.count;
    let apart = right.mean - left.mean;
    let part = right.count / count;
    let between = apart * apart * (left.count * part);
    let squares = left.squares + right.squares + between;
    Spread { count, mean: left.mean + apart * part, squares }
}

/// The root of the sum of squares of float64 numbers, also where squares overflow or vanish: then
/// of numbers scaled by a power of two, far enough that no square of any float64 vanishes.
pub fn root_of_squares(x: &[f64]) -> f64 {
    let scaled = |by: f64| -> f64 {
        let squares: Vec<f64> = x.iter().map(|x| (x * by) * (x * by)).collect();
        ordered_sum(&squares).sqrt() / by
    };
    let plain = scaled(1.0);
    if plain == f64::INFINITY {
        scaled((-600f64).exp2())
    } else if plain < 1e-140 {
        scaled(600f64.exp2())
    } else {
        plain
    }
}
