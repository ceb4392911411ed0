"""The recipe for Dask, with its processes."""


def test_the_guide(snippet):
    snippet("dask.md")
