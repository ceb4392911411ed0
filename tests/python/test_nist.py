"""The univariate data sets, and those for the analysis of variance, of NIST's Statistical Reference
Datasets (https://www.itl.nist.gov/div898/strd): certified values, and exact rationals.

Data that NIST gives in decimals is not what a float64 holds. So the decimals are held against the
certified values, our results against exact rationals of the floats, and the two against each other
as far as the floats allow.
"""

from fractions import Fraction

import numpy as np
import pytest
from test_exact import Spread, U, relative, root

import raptors_arrow as ra

LEW = """
    -213 -564 -35 -15 141 115 -420 -360 203 -338 -431 194 -220 -513 154 -125 -559 92 -21 -579
    -52 99 -543 -175 162 -457 -346 204 -300 -474 164 -107 -572 -8 83 -541 -224 180 -420 -374
    201 -236 -531 83 27 -564 -112 131 -507 -254 199 -311 -495 143 -46 -579 -90 136 -472 -338
    202 -287 -477 169 -124 -568 17 48 -568 -135 162 -430 -422 172 -74 -577 -13 92 -534 -243
    194 -355 -465 156 -81 -578 -64 139 -449 -384 193 -198 -538 110 -44 -577 -6 66 -552 -164
    161 -460 -344 205 -281 -504 134 -28 -576 -118 156 -437 -381 200 -220 -540 83 11 -568 -160
    172 -414 -408 188 -125 -572 -32 139 -492 -321 205 -262 -504 142 -83 -574 0 48 -571 -106
    137 -501 -266 190 -391 -406 194 -186 -553 83 -13 -577 -49 103 -515 -280 201 300 -506 131
    -45 -578 -80 138 -462 -361 201 -211 -554 32 74 -533 -235 187 -372 -442 182 -147 -566 25
    68 -535 -244 194 -351 -463 174 -125 -570 15 72 -550 -190 172 -424 -385 198 -218 -536 96
"""

LOTTERY = """
    162 671 933 414 788 730 817 33 536 875 670 236 473 167 877 980 316 950 456 92 517 557 956
    954 104 178 794 278 147 773 437 435 502 610 582 780 689 562 964 791 28 97 848 281 858 538
    660 972 671 613 867 448 738 966 139 636 847 659 754 243 122 455 195 968 793 59 730 361 574
    522 97 762 431 158 429 414 22 629 788 999 187 215 810 782 47 34 108 986 25 644 829 630 315
    567 919 331 207 412 242 607 668 944 749 168 864 442 533 805 372 63 458 777 416 340 436 140
    919 350 510 572 905 900 85 389 473 758 444 169 625 692 140 897 672 288 312 860 724 226 884
    508 976 741 476 417 831 15 318 432 241 114 799 955 833 358 935 146 630 830 440 642 356 373
    271 715 367 393 190 669 8 861 108 795 269 590 326 866 64 523 862 840 219 382 998 4 628 305
    747 247 34 747 729 645 856 974 24 568 24 694 608 480 410 729 947 293 53 930 223 203 677
    227 62 455 387 318 562 242 428 968
"""

# What comes after 2.00, in units of 0.00001.
MAVRO = """
    180 170 180 190 180 170 150 140 150 150 170 180 180 190 190 210 200 160 140 130 130 150
    150 160 150 140 130 140 150 140 150 160 150 160 190 200 200 210 220 230 240 250 270 260
    260 260 270 260 250 240
"""

# What comes after 299, in units of 0.01.
MICHELSO = """
    85 74 90 107 93 85 95 98 98 88 100 98 93 65 76 81 100 100 96 96 96 94 96 94 88 80 85 88 90
    84 83 79 81 88 88 83 80 79 76 80 88 88 88 86 72 72 62 86 97 95 88 91 85 87 84 84 85 84 84
    84 89 81 81 82 80 77 76 74 75 76 91 92 89 86 88 72 84 85 85 78 89 84 78 81 76 81 79 81 82
    85 87 87 81 74 81 94 95 80 81 87
"""


def digits_of_pi(count: int) -> list[Fraction]:
    """The digits as NIST has them, by Machin's formula in whole numbers."""
    unit = 10 ** (count + 10)

    def arctan_of_inverse(x: int) -> int:
        power, total, k = unit // x, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= x * x
            k += 1
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    digits = []
    for _ in range(count):
        digit, pi = divmod(pi, unit)
        digits.append(Fraction(digit))
        pi *= 10
    # The file has a 3 in the place of one 8, and its certified values are those of the file.
    assert digits[956] == 8
    digits[956] = Fraction(3)
    return digits


def whole(text: str) -> list[Fraction]:
    return [Fraction(number) for number in text.split()]


def alternating(middle: Fraction) -> list[Fraction]:
    """The middle, then a tenth below and above it in turn: 1001 numbers."""
    return [middle] + [middle - Fraction(1, 10), middle + Fraction(1, 10)] * 500


# Numbers, and the certified mean and standard deviation to 15 digits.
UNIVARIATE = {
    "PiDigits": (lambda: digits_of_pi(5000), "4.53480000000000", "2.86733906028871"),
    "Lottery": (lambda: whole(LOTTERY), "518.958715596330", "291.699727470969"),
    "Lew": (lambda: whole(LEW), "-177.435000000000", "277.332168044316"),
    "Mavro": (
        lambda: [2 + number / 100_000 for number in whole(MAVRO)],
        "2.00185600000000",
        "0.000429123454003053",
    ),
    "Michelso": (
        lambda: [299 + number / 100 for number in whole(MICHELSO)],
        "299.852400000000",
        "0.0790105478190518",
    ),
    "NumAcc1": (lambda: [Fraction(10_000_000 + k) for k in (1, 3, 2)], "10000002", "1"),
    "NumAcc2": (lambda: alternating(Fraction("1.2")), "1.2", "0.1"),
    "NumAcc3": (lambda: alternating(Fraction("1000000.2")), "1000000.2", "0.1"),
    "NumAcc4": (lambda: alternating(Fraction("10000000.2")), "10000000.2", "0.1"),
}


@pytest.mark.parametrize("name", UNIVARIATE)
def test_certified_univariate_sets(name):
    made, mean, deviation = UNIVARIATE[name]
    decimals = made()
    # The data is NIST's: its exact moments are the certified ones.
    count = len(decimals)
    exact_mean = sum(decimals) / count
    exact_root = root(sum((x - exact_mean) ** 2 for x in decimals) / (count - 1))
    assert relative(float(exact_mean), Fraction(mean)) < 1e-14
    assert relative(exact_root, Fraction(deviation)) < 1e-14
    x = np.array([float(number) for number in decimals])
    spread = Spread(x)
    spread.check(ra.var(x, ddof=1), ra.std(x, ddof=1), 1)
    # A float is off by a unit of its decimal at most, in whole standard deviations.
    of_floats = 2 * U * float(max(map(abs, decimals))) / exact_root
    assert relative(ra.std(x, ddof=1), Fraction(deviation)) <= spread.bound() + of_floats + 1e-14
    assert relative(ra.mean(x), Fraction(mean)) <= 4 * U + 1e-14


@pytest.mark.parametrize("replicates", [21, 201, 2001])
@pytest.mark.parametrize("base", ["1", "1000000", "1000000000000"])
def test_certified_sets_for_the_analysis_of_variance(base, replicates):
    """SmLs01 to SmLs09: nine treatments, whose certified F is the number of replicates."""
    tenth = Fraction(1, 10)
    means = [Fraction(base) + 4 * tenth] + [Fraction(base) + k * tenth for k in (3, 5) * 4]
    table = [[m] + [m - tenth, m + tenth] * ((replicates - 1) // 2) for m in means]
    total = len(means) * (replicates - 1)

    def f_ratio(squares: Fraction, within: Fraction) -> Fraction:
        return (squares - within) / 8 / (within / total)

    def squares_of(numbers) -> Fraction:
        mean = sum(numbers) / len(numbers)
        return sum((x - mean) ** 2 for x in numbers)

    flat = [x for row in table for x in row]
    certified = f_ratio(squares_of(flat), sum(map(squares_of, table)))
    assert certified == replicates
    assert sum(map(squares_of, table)) / total == tenth**2
    x = np.array([[float(number) for number in row] for row in table])
    # Every variance is within its bound of what the floats have.
    spreads = [Spread(row) for row in x]
    for row, spread in zip(ra.var(x, axis=1, ddof=1), spreads, strict=True):
        assert relative(row, spread.variance(1)) <= spread.bound()
    whole_spread = Spread(x.reshape(-1))
    for axis, data in ((None, x), (None, x.reshape(-1)), (0, x.reshape(-1, 1))):
        got = np.asarray(ra.var(data, axis=axis)).reshape(-1)[0]
        assert relative(got, whole_spread.variance(0)) <= whole_spread.bound()
    # And so is their ratio, which is the certified one as far as floats hold the decimals.
    within = sum(Fraction(float(v)) for v in ra.var(x, axis=1)) * replicates
    got = f_ratio(Fraction(float(ra.var(x))) * x.size, within)
    of_floats = f_ratio(whole_spread.squares, sum(spread.squares for spread in spreads))
    assert relative(float(got), of_floats) <= 8 * whole_spread.bound()
    units = U * float(base) / 0.1
    assert relative(float(got), certified) <= 16 * units + 8 * whole_spread.bound()
