"""Prints the requirements of one extra of pyproject.toml, for pip."""

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"

print(*tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"][sys.argv[1]])
