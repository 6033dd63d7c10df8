"""How old a reader's view may be on another host.

    .ci/hosts glusterfs python tests/support/view_ages.py [SECONDS]

A writer on one host appends rows with the time and overwrites an element with it; a reader on the
other looks all the time.  Its view is as old as the first change that it does not show yet: the
table has the median, the 99th percentile and the longest of these ages, in milliseconds.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

WRITER = """
import random, sys, time
import numpy as np
import extarray as xa
path, flushes, end = sys.argv[1], sys.argv[2] == "flush", time.time() + float(sys.argv[3])
with xa.create(path, (1, 4), "f8") as array:
    array[0] = time.time()
    array.flush()
    print("ready", flush=True)
    times = []
    while time.time() < end:
        time.sleep(random.choice([0.001, 0.01, 0.1, 0.5]) * random.random())
        times.append(time.time())
        array.append(np.full((1, 4), times[-1]))
        array[0] = times[-1]
        if flushes:
            array.flush()
    array.attrs["ended"] = True
"""

READER = """
import sys, time
import numpy as np
import extarray as xa
path, way = sys.argv[1:]
# Seen at this time: so many rows, and this element.
seen, rows, element, reader = [], 0, 0.0, xa.open(path)
refused = back = 0
while not reader.attrs.get("ended"):
    try:
        if way == "refresh":
            reader.refresh()
        else:
            new = xa.open(path)
            reader.close()
            reader = new
    except xa.errors.ExtArrayError:
        refused += 1
        continue
    found = float(reader[0, 0])
    now = time.time()
    back += len(reader) < rows
    if len(reader) > rows or found != element:
        rows, element = max(rows, len(reader)), found
        seen.append((now, rows, element))
times = reader[1:, 0]
late_rows, late_elements, rows, element = [], [], seen[0][1], seen[0][2]
for now, new_rows, new_element in seen[1:]:
    if new_rows > rows:
        late_rows.append(now - times[rows - 1])
    if new_element > element:
        late_elements.append(now - times[np.searchsorted(times, element, "right")])
    elif new_element < element:
        print("an element went back by", element - new_element)
    rows, element = new_rows, new_element
for name, late in (("states", late_rows), ("elements", late_elements)):
    late = np.sort(late) * 1000 if late else np.array([np.nan])
    print(f"{name:8} {len(late):5d} {np.median(late):9.1f} "
          f"{late[int(0.99 * (len(late) - 1))]:9.1f} {late[-1]:9.1f}")
for name, count in (("refused", refused), ("back", back)):
    if count:
        print(f"{name:8} {count:5d} looks")
"""


def main(seconds: str = "20") -> None:
    here, there = map(shlex.split, os.environ["EXTARRAY_TEST_HOSTS"].splitlines())
    print(
        f"{'writer':8} {'reader':8} {'of':8} {'seen':>5} {'median':>9} {'99 %':>9} {'longest':>9}"
    )
    for ways in (
        ("flush", "refresh"),
        ("flush", "open"),
        ("append", "refresh"),
        ("append", "open"),
    ):
        path = f"{os.environ['EXTARRAY_TEST_SHARED']}/{'-'.join(ways)}"
        command = [*here, sys.executable, "-c", WRITER, path, ways[0], seconds]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            writer.stdout.readline()
            command = [*there, sys.executable, "-c", READER, path, ways[1]]
            limit = float(seconds) + 60
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=False, timeout=limit
            )
        for line in done.stdout.splitlines() or ["failed"]:
            print(f"{ways[0]:8} {ways[1]:8} {line}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
