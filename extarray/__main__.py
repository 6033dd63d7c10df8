"""``python -m extarray``: the command line."""

import sys

from extarray.cli import main

if __name__ == "__main__":
    sys.exit(main())
