"""``raptors-arrow info``: the version, the build, the machine, and what is installed beside."""

import argparse
import json
import platform
from datetime import UTC, datetime
from typing import Any

import raptors_arrow as ra
from raptors_arrow.bench.machine import package_version

__all__ = ["DESCRIPTION", "add_arguments", "collect", "run"]

# What this package reads from, gives to, or is compared with.
_LIBRARIES = [
    "numpy",
    "pyarrow",
    "polars",
    "datafusion",
    "duckdb",
    "arro3-core",
    "nanoarrow",
    "numexpr",
    "jax",
    "simsimd",
    "rich",
]


DESCRIPTION = (
    "Shows the version, the build, the machine with its profile, and the libraries found. A report "
    "of a problem is best with it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command and give its exit code."""
    about = collect()
    print(json.dumps(about, indent=2) if args.json else _text(about))
    return 0


def collect() -> dict[str, Any]:
    """Collect what there is to say.

    Returns
    -------
    dict
        ``build`` and machine as ``build_info`` gives them, ``profile`` as ``profile_status``,
        ``pool`` of output buffers, ``python``, and ``libraries`` with their versions, ``None``
        for those that are not installed.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> from raptors_arrow import info
    >>> info.collect()["build"]["version"] == ra.__version__
    True
    """
    build = dict(ra.build_info())
    pool = ra.pool_stats()
    names = ("limit_bytes", "held_bytes", "held_buffers", "used_bytes", "hits", "misses")
    return {
        "build": build,
        "profile": dict(ra.profile_status()),
        "pool": {name: getattr(pool, name) for name in names},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        # From the metadata: to import them all would take seconds.
        "libraries": {name: package_version(name) for name in _LIBRARIES},
    }


def _text(about: dict[str, Any]) -> str:
    build, profile, pool = about["build"], about["profile"], about["pool"]
    found = [f"{name} {v}" for name, v in about["libraries"].items() if v is not None]
    missing = [name for name, v in about["libraries"].items() if v is None]
    lines = [
        ("raptors-arrow", f"{build['version']}, {build['functions']} functions"),
        (
            "build",
            f"{build['profile']}, {build['target']}, features: {', '.join(build['features'])}",
        ),
        ("python", about["python"]),
        ("cpu", build["cpu"] or "unknown"),
        ("simd", f"{build['simd']} (available: {', '.join(build['simd_available'])})"),
        ("backends", ", ".join(build["backends"])),
        (
            "threads",
            f"{build['num_threads']} at most, {build['cores']} cores, "
            f"{build['threads_started']} workers started",
        ),
        (
            "caches",
            f"L1 {_bytes(build['l1_bytes'])}, L2 {_bytes(build['l2_bytes'])}, "
            f"last level {_bytes(build['llc_bytes'])}",
        ),
        ("memory", _bytes(build["memory_bytes"])),
        ("profile", _profile(profile)),
        (
            "pool",
            f"{_bytes(pool['held_bytes'])} held of {_bytes(pool['limit_bytes'])}, "
            f"{_bytes(pool['used_bytes'])} in use, {pool['hits']} hits, {pool['misses']} misses",
        ),
        ("libraries", ", ".join(found) or "none"),
        ("not installed", ", ".join(missing) or "none"),
    ]
    return "\n".join(f"{name:<14} {what}" for name, what in lines)


def _profile(profile: dict[str, Any]) -> str:
    if profile["state"] == "used":
        date = datetime.fromtimestamp(profile["measured_at"], UTC)
        return f"{profile['path']}, measured {date:%Y-%m-%d %H:%M} UTC, used"
    where = f"{profile['path']}, " if profile["path"] else ""
    why = f": {profile['reason']}" if profile["reason"] else ""
    state = "none yet (raptors-arrow tune)" if profile["state"] == "absent" else profile["state"]
    return f"{where}{state}{why}"


def _bytes(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.4g} {unit}"
    return f"{n} B"
