//! Narrow widths as constants, so that the compiler sees how long a row is.

/// Runs `$narrow` with `$W` a constant for widths up to 16 (or 8), `$wide` for others.
macro_rules! by_width {
    (to 8, $width:expr, $W:ident => $narrow:expr, else $wide:expr) => {
        crate::kernel::width::by_width!(@each $width, $W => $narrow, else $wide;
            1 2 3 4 5 6 7 8)
    };
    ($width:expr, $W:ident => $narrow:expr, else $wide:expr) => {
        crate::kernel::width::by_width!(@each $width, $W => $narrow, else $wide;
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@each $width:expr, $W:ident => $narrow:expr, else $wide:expr; $($n:literal)+) => {
        match $width {
            $($n => {
                const $W: usize = $n;
                $narrow
            })+
            _ => $wide,
        }
    };
}
pub(crate) use by_width;
