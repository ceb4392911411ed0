"""``python -m raptors_arrow`` is the console script ``raptors-arrow``."""

import sys

from raptors_arrow.cli import main

if __name__ == "__main__":
    sys.exit(main())
