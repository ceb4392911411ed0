"""Mistakes that an editor should mark: each line must be an error, or its ``ignore`` is one."""

import numpy as np

import raptors_arrow as ra

x = np.ones((3, 2))

ra.sum("text")  # type: ignore
ra.sum(x, axis=2)  # type: ignore
ra.sum(x, skip_nulls="yes")  # type: ignore
ra.scale(x)  # type: ignore
ra.scale(x, "2")  # type: ignore
ra.top_k(x, x, metric="cosinus")  # type: ignore
ra.no_such_function(x)  # type: ignore
ra.set_num_threads("2")  # type: ignore
