"""Publish arrays and groups in buckets, and follow them as they grow."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from extarray.cli._command import (
    COMPRESSION,
    argument,
    array_path,
    click,
    codec_of,
    command,
    flag,
    option,
    usage_error,
    wrong_calls,
)
from extarray.cli.look import is_group, opened, opened_group
from extarray.common.formatting import format_bytes
from extarray.common.terminal import print_text

__all__ = ["publish"]

_DAY = 86400.0


@command(
    "publish",
    "keep a copy of an array or a folder in a bucket that grows with it",
    array_path(),
    argument("url", "URL"),
    flag("--follow", "publish new elements as another process appends them"),
    option(
        "--every",
        "SECONDS",
        "with --follow: time between two updates (default: 1)",
        type=click.FloatRange(min=0.01),
        default=1.0,
    ),
    option(
        "--timeout",
        "SECONDS",
        "with --follow: stop if nothing arrives for this long (default: never)",
        type=click.FloatRange(min=0),
    ),
    flag("--compare", "also publish elements that were overwritten: compare all chunks"),
    flag("--clean", "remove objects that are out of use"),
    option(
        "--older-than",
        "SECONDS",
        "with --clean: only those out of use for this long (default: a day)",
        type=click.FloatRange(min=0),
        default=_DAY,
    ),
    COMPRESSION,
    details="URL is the place in a bucket, as in s3://bucket/scene; credentials are those of the "
    "environment.  If PATH is published there already, what is new is added.  Press Ctrl-C to "
    "stop --follow.",
)
def publish(
    path: str,
    url: str,
    follow: bool,
    every: float,
    timeout: float | None,
    compare: bool,
    clean: bool,
    older_than: float,
    compression: str | None,
) -> None:
    """Publish an array or a group, and perhaps what comes."""
    import extarray as xa

    if timeout is not None and not follow:
        raise usage_error("--timeout needs --follow")
    with opened_group(path) if is_group(path) else opened(path) as a:
        with wrong_calls():
            found = xa.publish(a, url, compare=compare, **codec_of(compression))
        before = _told(found, {})
        cleaned = time.monotonic()
        if clean:
            _clean(found, older_than)
        if not follow:
            return
        last = time.monotonic()
        with contextlib.suppress(KeyboardInterrupt):  # the usual end
            while timeout is None or time.monotonic() - last < timeout:
                time.sleep(every if timeout is None else min(every, timeout))
                if found.update():
                    last = time.monotonic()
                    before = _told(found, before)
                if clean and time.monotonic() - cleaned > older_than:
                    cleaned = time.monotonic()
                    _clean(found, older_than)


def _told(found: Any, before: dict[str, int]) -> dict[str, int]:
    """Print what is published, and what that has cost; return all costs so far."""
    now: dict[str, int] = found.requests
    cost = {name: n - before.get(name, 0) for name, n in now.items()}
    n = cost["puts"] + cost["gets"] + cost["lists"] + cost["deletes"]
    sent = format_bytes(cost["sent"])
    print_text(f"{found.content}: {n} request{'s' * (n != 1)}, {sent} sent")
    return now


def _clean(found: Any, older_than: float) -> None:
    n = found.clean(older_than=older_than)
    print_text(f"{n} object{'s' * (n != 1)} removed")
