"""Checks the crates that builds take in: licences, sources, versions and build scripts.

From ``cargo metadata`` and the lock files alone, for the crate, the examples, the tests in
DataFusion and the loom model.
Advisories are not among it: they need a database from the network.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from written import ROOT

MANIFESTS = (
    "Cargo.toml",
    "examples/Cargo.toml",
    "tests/datafusion/Cargo.toml",
    "tests/loom/Cargo.toml",
)

#: Licences under which a wheel may be given to anybody.
LICENCES = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

#: Crates of which two versions are in one build, and who asks for the older one.
TWICE = {
    "foldhash": "hashbrown, for the tests in DataFusion",
    "getrandom": "const-random, by ahash, for arrow-array",
    "hashbrown": "dashmap and petgraph, for the tests in DataFusion",
    "itertools": "object_store, for the tests in DataFusion",
    "num-bigint": "bigdecimal, for the tests in DataFusion",
    "r-efi": "the two of getrandom, on a target that is none of ours",
    "syn": "macros of crates that have not moved to the new one",
}

#: What a build script would fetch with.
FETCHES = re.compile(r"TcpStream|UdpSocket|ureq|reqwest|hyper::|\bcurl\b|\bwget\b|git clone|git2::")


def is_allowed(expression: str) -> bool:
    """Say whether one of the licences that an expression offers is allowed."""
    expression = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ")
    pattern = r"\(|\)|\bOR\b|\bAND\b|[\w.\-]+(?: WITH [\w.\-]+)?"
    words = {"OR": "or", "AND": "and", "(": "(", ")": ")"}
    terms = [words.get(word, str(word in LICENCES)) for word in re.findall(pattern, expression)]
    return bool(eval(" ".join(terms)))


def faults(manifest: str) -> list[str]:
    """Give what is wrong with the crates of a manifest."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    command += ["--manifest-path", str(ROOT / manifest)]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    found, versions = [], {}
    for package in metadata["packages"]:
        name = f"{package['name']} {package['version']}"
        versions.setdefault(package["name"], set()).add(package["version"])
        if package["source"] is None:
            continue
        if not package["source"].startswith("registry+"):
            found.append(f"{name} is from {package['source']}, not from the registry")
        if not is_allowed(package["license"] or "none"):
            found.append(f"{name} has the licence {package['license']}")
        for target in package["targets"]:
            if "custom-build" in target["kind"]:
                text = Path(target["src_path"]).read_text(errors="replace")
                if match := FETCHES.search(text):
                    found.append(f"the build script of {name} has {match[0]}")
    for name, several in versions.items():
        if len(several) > 1 and name not in TWICE:
            found.append(f"{name} is there in the versions {', '.join(sorted(several))}")
    lock = tomllib.loads((ROOT / manifest).with_name("Cargo.lock").read_text())
    for package in lock["package"]:
        if "source" in package and "checksum" not in package:
            found.append(f"{package['name']} has no checksum in Cargo.lock")
    return [f"{manifest}: {fault}" for fault in found]


if __name__ == "__main__":
    every = [fault for manifest in MANIFESTS for fault in faults(manifest)]
    sys.exit("\n".join(every) if every else 0)
