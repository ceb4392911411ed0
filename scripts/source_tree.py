"""Makes the package of this source tree importable in the environment that runs this.

A line in its site-packages does that, also for the processes that an engine starts.
"""

import sysconfig
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent.parent / "python"
(Path(sysconfig.get_path("purelib")) / "raptors_arrow_source.pth").write_text(f"{PACKAGES}\n")
