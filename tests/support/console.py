"""Run a command in a console of its own; for each line of stdin, press Ctrl-C there (Windows).

  python console.py COMMAND...

Ends with the command's status.  Its output goes where this program's does.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys

__all__: list[str] = []


def main() -> int:
    """Run the command."""
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.FreeConsole()
    if not kernel.AllocConsole():
        raise ctypes.WinError(ctypes.get_last_error())
    # The process may have come from one that ignores Ctrl-C.
    kernel.SetConsoleCtrlHandler(None, False)
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, lambda number, frame: None)
    # Only this console's programs get it.
    for _ in sys.stdin:
        if not kernel.GenerateConsoleCtrlEvent(signal.CTRL_C_EVENT, 0):
            raise ctypes.WinError(ctypes.get_last_error())
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
