"""Peaks of anonymous memory, measured in another process: file pages of a mapping do not count."""

from __future__ import annotations

import json
import os

import pytest

__all__ = ["of_memory", "peaks"]

#: For tests of how much memory is taken: a sanitizer keeps what is freed for a while.
of_memory = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer keeps freed memory"
)

#: Runs the set-up, then each call, and prints by how many MiB the anonymous memory grew at most.
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

#: Freed memory goes back to the system at once, so that each call begins without any.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def peaks(script, setup: str, calls: list[str]) -> dict[str, float]:
    """The growth of anonymous memory in MiB at most, for each of some calls.

    `setup` defines the names that the calls use.
    """
    lines = script(_SCRIPT, env=_ENVIRONMENT, text=json.dumps([setup, calls]))
    return dict(zip(calls, json.loads(lines), strict=True))
