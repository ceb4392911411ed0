"""Keeps all contestants to the same CPUs. Imports none of them."""

import os

import raptors_arrow as ra

__all__ = ["limit_cpus"]


def limit_cpus(count: int) -> None:
    """Keep this process, and with it every library that it imports later, to some CPUs."""
    if not hasattr(os, "sched_setaffinity"):
        raise ValueError(
            "--threads: expected a system that can keep a process to some CPUs (Linux); here other "
            "libraries would use all of them: leave the option out"
        )
    cpus = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(cpus):
        raise ValueError(f"--threads: expected 1 to {len(cpus)}, got {count}")
    os.sched_setaffinity(0, cpus[:count])
    ra.set_num_threads(count)
