"""``extarray view``: its server as a process, and a real browser for its page."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Contact no other hosts; no sandbox, for containers and root.
OPTIONS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage "
    "--no-first-run --disable-background-networking --disable-component-update --disable-sync "
    "--hide-scrollbars --force-color-profile=srgb"
)


def missing_browser() -> str | None:
    """Return what browser tests lack, or None."""
    try:
        import selenium  # noqa: F401
        import tornado  # noqa: F401
    except ImportError as error:
        return f"needs {error.name}: pip install '.[test]'"
    if not any(map(shutil.which, CHROMIUMS)) or not shutil.which("chromedriver"):
        return "needs Chromium and its driver (Debian: apt-get install chromium chromium-driver)"
    return None


class Server:
    """``extarray view`` in a separate process.

    Its address is `url`.  A ``with`` block ends it by Ctrl-C, and it must end well.  `descriptors`
    limits its descriptors, and `patience` its wait for requests, in seconds.
    """

    def __init__(self, path, *options, environment=None, descriptors=None, patience=None):
        program = ["-m", "extarray"]
        if patience is not None:
            impatient = (
                "import sys; from extarray import cli; from extarray.common.limits import limits; "
                f"limits.request_patience = {patience}; sys.exit(cli.main(sys.argv[1:]))"
            )
            program = ["-c", impatient]
        few = [] if descriptors is None else ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', ""]
        self.process = subprocess.Popen(
            [*few, sys.executable, "-W", "error", *program, "view", str(path), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            self.process.kill()
            raise AssertionError(f"no address: {line}{self.process.communicate()[1]}")
        self.url = found[0]

    def end(self) -> tuple[int, str]:
        """Interrupt it; return the exit status and its standard error output."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            _, errors = self.process.communicate(timeout=250)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, errors

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        status, errors = self.end()
        if kind is None:
            assert (status, errors) == (0, "")


def chromium(profile, width=1280, height=860, scale=1):
    """Return a headless Chromium, with a window of this inner size in pixels."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, CHROMIUMS)))
    for option in [
        *OPTIONS.split(),
        f"--user-data-dir={profile}",
        f"--window-size={width},{height}",
        f"--force-device-scale-factor={scale}",
    ]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    border = driver.execute_script(
        "return [window.outerWidth - innerWidth, outerHeight - innerHeight]"
    )
    driver.set_window_size(width + border[0], height + border[1])
    return driver


def until(condition, seconds=60):
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not so within {seconds} s: {condition}")
        time.sleep(0.02)
