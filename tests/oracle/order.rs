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

/// A number as the sum of two float64: the nearest, or one near it, and the rest.
pub type Pair = (f64, f64);

/// `a + b`, rounded, and what rounding took away: 0 where the sum is not finite.
fn two_sum(a: f64, b: f64) -> Pair {
    let sum = a + b;
    let of_b = sum - a;
    let rest = (a - (sum - of_b)) + (b - of_b);
    (sum, if sum.is_finite() { rest } else { 0.0 })
}

/// A pair moved by a distance.
pub fn moved(pair: Pair, by: f64) -> Pair {
    two_sum(pair.0, pair.1 + by)
}

/// The distance of two pairs.
fn apart(from: Pair, to: Pair) -> f64 {
    let (high, rest) = two_sum(to.0, -from.0);
    high + (rest + (to.1 - from.1))
}

/// Count, mean, and sum of squared distances from the mean.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub count: f64,
    pub mean: Pair,
    pub squares: f64,
}

/// The spread of a sequence: in each leaf around its first valid element, joined as Chan, Golub
/// and LeVeque say.
pub fn spread(x: &[Option<f64>]) -> Spread {
    let leaves: Vec<Spread> = x.chunks(LEAF).map(leaf_spread).collect();
    let nothing = Spread { count: 0.0, mean: (0.0, 0.0), squares: 0.0 };
    tree(&leaves, &join).unwrap_or(nothing)
}

fn leaf_spread(leaf: &[Option<f64>]) -> Spread {
    let count = leaf.iter().flatten().count() as f64;
    let Some(shift) = leaf.iter().flatten().next().copied() else {
        return Spread { count, mean: (0.0, 0.0), squares: 0.0 };
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
    Spread { count, mean: (shift, mean), squares }
}

fn join(left: Spread, right: Spread) -> Spread {
    if left.count == 0.0 {
        return right;
    }
    if right.count == 0.0 {
        return left;
    }
    let count = left.count + right.count;
    let apart = apart(left.mean, right.mean);
    let part = right.count / count;
    let between = apart * apart * (left.count * part);
    let squares = left.squares + right.squares + between;
    // From the mean of the more: it moves less.
    let mean = if right.count > left.count {
        moved(right.mean, -apart * (left.count / count))
    } else {
        moved(left.mean, apart * part)
    };
    Spread { count, mean, squares }
}

/// The powers of two that numbers are multiplied by: where something overflows, and where squares
/// vanish. No square of any float64 does either then.
pub const DOWN: f64 = f64::from_bits((1023 - 600) << 52);
pub const UP: f64 = f64::from_bits((1023 + 600) << 52);

/// A measure of float64 numbers, and what they were multiplied by: 1, unless it is in doubt then.
/// `power` says by what to multiply, if a measure is in doubt.
pub fn looked_at_twice<M>(
    x: &[Option<f64>],
    measure: impl Fn(&[Option<f64>]) -> M,
    power: impl Fn(&M) -> Option<f64>,
) -> (M, f64) {
    let plain = measure(x);
    match power(&plain) {
        None => (plain, 1.0),
        Some(by) => {
            let scaled: Vec<Option<f64>> = x.iter().map(|x| x.map(|x| x * by)).collect();
            (measure(&scaled), by)
        }
    }
}

/// By what to multiply for a sum.
pub fn power_for_sum(sum: f64) -> Option<f64> {
    (!sum.is_finite()).then_some(DOWN)
}

/// By what to multiply for a sum of squares.
pub fn power_for_squares(squares: f64) -> Option<f64> {
    match squares {
        f64::INFINITY => Some(DOWN),
        _ if squares < 1e-280 => Some(UP),
        _ => None,
    }
}

/// By what to multiply for a spread. Numbers beyond 1e-120 that differ at all differ by more than
/// 1e-140.
pub fn power_for_spread(spread: &Spread) -> Option<f64> {
    match spread.squares {
        squares if !squares.is_finite() => Some(DOWN),
        squares if squares < 1e-280 && spread.mean.0.abs() < 1e-120 && spread.count > 1.0 => {
            Some(UP)
        }
        _ => None,
    }
}

/// The sum of terms of the numbers, each in its place.
pub fn sum_of_terms(x: &[Option<f64>], term: impl Fn(f64) -> f64) -> f64 {
    ordered_sum(&x.iter().map(|x| x.map_or(-0.0, &term)).collect::<Vec<_>>())
}
