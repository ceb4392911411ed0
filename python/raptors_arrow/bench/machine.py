"""The machine and the versions that a record was made with."""

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import raptors_arrow as ra

__all__ = ["describe", "package_version", "summary"]


def package_version(package: str) -> str | None:
    """Give the version of a package, or ``None`` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    """Name the CPU: its model, and family and model numbers where the name hides them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    if "model name" in facts:
        numbers = f"family {facts.get('cpu family', '?')}, model {facts.get('model', '?')}"
        return f"{facts['model name']} ({numbers})"
    if platform.system() == "Darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return platform.processor() or platform.machine()


def describe(packages: Iterable[str]) -> dict[str, Any]:
    """Describe the machine, this build and the versions of packages as JSON values."""
    build = dict(ra.build_info())
    found = {package: package_version(package) for package in dict.fromkeys(packages)}
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "l1_bytes": build["l1_bytes"],
        "l2_bytes": build["l2_bytes"],
        "llc_bytes": build["llc_bytes"],
        "memory_bytes": build["memory_bytes"],
        "os": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {package: number for package, number in found.items() if number},
        "build": build,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def summary(machine: dict[str, Any]) -> str:
    """Describe a machine in one line."""
    build = machine["build"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores, L2 {machine['l2_bytes'] >> 10} KiB, "
        f"last-level cache {machine['llc_bytes'] >> 20} MiB, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['os']}, {build['simd']}, "
        f"raptors-arrow {build['version']} ({build['profile']}), Python {machine['python']}, "
        f"{versions}"
    )
