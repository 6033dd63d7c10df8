"""Run a command in a terminal of its own; its exit status is this one's.

As `script` does, which takes other options on each system.
"""

import os
import pty
import sys

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
