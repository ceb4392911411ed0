"""No test reads or writes the profile of the user who runs it, or is changed by one."""

import os

# Before the package is imported, and for the processes that tests start.
os.environ["RAPTORS_PROFILE"] = "off"
