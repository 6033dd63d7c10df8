"""Print which part of the lines of each room has run, of Python and of Cython.

python coverage_of_rooms.py JSON

The file is that of ``coverage json``.
"""

import json
import sys
from collections import Counter
from pathlib import Path

KINDS = {".py": "Python", ".pyx": "Cython"}


def main(file):
    ran, lines = Counter(), Counter()
    for name, found in json.loads(Path(file).read_text(encoding="utf-8"))["files"].items():
        path = Path(name)
        room = path.parts[path.parts.index("extarray") + 1]
        key = "the face" if path.parent.name == "extarray" else room, KINDS[path.suffix]
        for each in (key, ("all", key[1])):
            ran[each] += found["summary"]["covered_lines"]
            lines[each] += found["summary"]["num_statements"]
    rows = sorted(key for key, n in lines.items() if n and key[0] != "all")
    for room, kind in [*rows, ("all", "Python"), ("all", "Cython")]:
        n, of = ran[room, kind], lines[room, kind]
        print(f"{room:<12} {kind}  {100 * n / max(of, 1):5.1f} %  {n:6} of {of:6} lines")
    ran_all, all_lines = (sum(c["all", kind] for kind in KINDS.values()) for c in (ran, lines))
    print(f"{'all':<12}         {100 * ran_all / all_lines:5.1f} %")


if __name__ == "__main__":
    main(sys.argv[1])
