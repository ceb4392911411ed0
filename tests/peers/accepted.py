"""Tests of other libraries that may differ with our functions in place, each with its reason."""

#: A glob over the file and name of a test, and why its outcome is not that of the library's own
#: function.
ACCEPTED: dict[str, str] = {
    "scipy/spatial/tests/test_distance.py::TestCdist::test_cdist_out[[]euclidean]": (
        "asks for the last bits of scipy's own loop; distances of ours come from products, and are "
        "within the bound of docs/guide/numbers.md"
    ),
    "scipy/spatial/tests/test_distance.py::TestCdist::test_cdist_euclidean_random_unicode": (
        "the same"
    ),
    "sklearn/preprocessing/tests/test_data.py::test_standard_scaler_numerical_stability": (
        "waits for a warning that the mean was not exact: ours is"
    ),
    "pandas/tests/frame/test_reductions.py::*_axis_none_returns_scalar[[]Float64-*-mean]": (
        "asks that a mean of a masked column, which pandas adds itself, equals one that we add, to "
        "the last bit: the orders of adding differ"
    ),
}
