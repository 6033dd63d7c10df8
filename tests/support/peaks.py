"""Peaks of anonymous memory in another process; file pages of a mapping do not count."""

from __future__ import annotations

import json
import os

__all__ = ["FREED_AT_ONCE", "peaks"]

#: Runs the set-up, then each call, and prints the peak growth of anonymous memory in MiB.
_SCRIPT = """
import json, os, re, sys, threading, time, warnings
import numpy as np, extarray as xa

def anonymous():
    with open("/proc/self/status") as status:
        return int(re.search(r"RssAnon:\\s+(\\d+)", status.read())[1]) / 1024

def watch():
    while not done.is_set():
        peaks[-1] = max(peaks[-1], anonymous())
        time.sleep(0.001)

setup, calls = json.loads(sys.stdin.read())
warnings.simplefilter("ignore")  # of empty slices, and of files that the end of the process closes
sys.setswitchinterval(0.001)
exec(setup)
peaks = []
for call in calls:
    operation = eval("lambda: " + call)
    before = anonymous()
    peaks.append(before)
    done = threading.Event()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        operation()
    finally:
        done.set()
        watcher.join()
    peaks[-1] -= before
print(json.dumps(peaks))
"""

#: An environment in which the C library returns freed memory to the system at once, as does
#: AddressSanitizer, which otherwise keeps it for a while to find later uses.
FREED_AT_ONCE = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "ASAN_OPTIONS": ":".join(
        [
            *filter(None, [os.environ.get("ASAN_OPTIONS")]),
            "quarantine_size_mb=0",
            "thread_local_quarantine_size_kb=0",
            "allocator_release_to_os_interval_ms=0",
        ]
    ),
}


def peaks(freeing, setup: str, calls: list[str], imports=()) -> dict[str, float]:
    """Return the peak growth of anonymous memory in MiB for each call.

    `setup` defines the names that the calls use; `freeing` runs code in an environment that frees
    memory at once.
    """
    lines = freeing(_SCRIPT, text=json.dumps([setup, calls]), imports=imports)
    return dict(zip(calls, json.loads(lines), strict=True))
