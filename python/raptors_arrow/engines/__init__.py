"""The functions and expressions inside other engines, one module for each.

They are attributes of the package, imported when they are used: ``ra.duckdb``, ``ra.datafusion``,
``ra.ray``, ``ra.spark``, ``ra.daft``. An engine splits, moves and schedules rows; the values of
each batch are computed here. Their types are read from the registry, never by a call.
"""
