"""The console script ``raptors-arrow``: one subcommand for each module that offers one.

A subcommand's module has a ``DESCRIPTION``, ``add_arguments(parser)`` and ``run(args)``, which
gives the exit code. It is imported only when its command is asked for.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import raptors_arrow

__all__ = ["main"]


class _Command(NamedTuple):
    module: str
    help: str
    extra: str


_COMMANDS = {
    "bench": _Command("raptors_arrow.bench", "compare the speed with other libraries", "bench"),
    "tune": _Command("raptors_arrow.tune", "measure this machine and keep a profile", "bench"),
    "run": _Command("raptors_arrow.run", "compute over files", "pyarrow"),
    "info": _Command("raptors_arrow.info", "show the version, the build and the machine", "bench"),
}
# Packages that a command may need and the package itself does not.
_OPTIONAL = {"numpy", "polars", "pyarrow", "rich"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the console script.

    Parameters
    ----------
    argv
        The arguments; those of the process if not given.

    Returns
    -------
    int
        The exit code: 0 if all went well, 1 if a check of the command failed, 2 for a mistake in
        the arguments or settings or a missing package, 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    asked = next((word for word in given if not word.startswith("-")), None)
    try:
        args = _parser(asked).parse_args(given)
        return int(args.run(args))
    except ModuleNotFoundError as error:
        if asked not in _COMMANDS or (error.name or "").partition(".")[0] not in _OPTIONAL:
            raise
        print(
            f"raptors-arrow {asked}: expected the package {error.name}, which is not installed; "
            f"pip install 'raptors-arrow[{_COMMANDS[asked].extra}]'",
            file=sys.stderr,
        )
        return 2
    except raptors_arrow.RaptorsError as error:
        print(f"raptors-arrow {asked}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"raptors-arrow {asked}: interrupted", file=sys.stderr)
        return 130


def _parser(asked: str | None) -> argparse.ArgumentParser:
    """Make the parser; only the command that is asked for is imported."""
    parser = argparse.ArgumentParser(
        prog="raptors-arrow", description="Tools of raptors-arrow: compare, tune, look inside."
    )
    parser.add_argument(
        "--version", action="version", version=f"raptors-arrow {raptors_arrow.__version__}"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in _COMMANDS.items():
        own = commands.add_parser(name, help=command.help)
        if name == asked:
            module = import_module(command.module)
            own.description = module.DESCRIPTION
            own.set_defaults(run=module.run)
            module.add_arguments(own)
    return parser
