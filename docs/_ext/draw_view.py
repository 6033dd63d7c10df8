"""Takes the pictures of the page that ``extarray view`` shows, in a headless Chromium.

    python docs/_ext/draw_view.py docs/_static

Needs the extra ``[test]``, and Chromium with its driver (Debian: chromium, chromium-driver).
"""

import io
import sys
import tempfile
from pathlib import Path

import numpy as np

import extarray as xa

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from viewing import Server, chromium, until

SHAPE = (48, 240, 360)


def sea(shape=SHAPE):
    """Temperatures of a sea with an island and a coast, which are no numbers."""
    time, y, x = (np.linspace(0, 1, n, dtype="f4") for n in shape)
    time, y, x = time[:, None, None], y[None, :, None], x[None, None, :]
    rng = np.random.default_rng(4)
    values = 27 - 17 * np.abs(1.15 * y - 0.55) ** 1.2 + 2.5 * np.sin(2 * np.pi * time)
    for _ in range(26):
        k, m = rng.normal(0, 5.5, 2)
        phase, speed = rng.uniform(0, 7), rng.normal(0, 1.6)
        size = 2.6 / (1 + np.hypot(k, m) / 3)
        bent = x + 0.05 * np.sin(6 * y + 2 * time)
        values = values + size * np.sin(2 * np.pi * (k * bent + m * y + speed * time) + phase)
    coast = 0.13 + 0.06 * np.sin(9 * y) + 0.03 * np.sin(23 * y + 1) + 0.10 * (1 - y) ** 2
    angle = np.arctan2(y - 0.62, x - 0.68)
    island = 0.10 + 0.025 * np.sin(3 * angle + 1) + 0.012 * np.sin(7 * angle)
    land = (x < coast) | (np.hypot(x - 0.68, 0.8 * (y - 0.62)) < island)
    return np.where(land, np.nan, values).astype("f4")


def make(path):
    """The sea, as it comes in: by months, then a wider strip, then further north and south."""
    data = sea()
    days = np.datetime64("2024-01-01") + 7 * np.arange(SHAPE[0])
    with xa.create(
        path,
        (0, 160, 240),
        "f4",
        chunks=(12, 40, 40),
        dims=("time", "lat", "lon"),
        fill_value=np.nan,
    ) as a:
        a.append(data[:24, 40:200, :240])
        a.extend(2, 80)
        a.append(data[24:36, 40:200, :320])
        a.extend(1, 40)
        a.extend(1, 40, side="start")
        a.append(data[36:, :, :320])
        a.extend(2, 40)
        a[:] = data
        origin = dict(zip(a.dims, a.origin, strict=True))
        a.attrs["coords"] = {
            "time": {"dims": ["time"], "dtype": "M8[D]", "data": days.astype(str).tolist()},
            "lat": {
                "dims": ["lat"],
                "data": (62 - np.arange(SHAPE[1]) / 4).tolist(),
                "attrs": {"units": "degrees_north"},
            },
            "lon": {
                "dims": ["lon"],
                "data": (np.arange(SHAPE[2]) / 4 - 40).tolist(),
                "attrs": {"units": "degrees_east"},
            },
        }
        a.attrs["coords"] = {
            name: {**form, "origin": [origin[name]]} for name, form in a.attrs["coords"].items()
        }
        a.attrs["units"] = "°C"
        a.attrs["long_name"] = "Sea surface temperature"


def settled(browser):
    """Whether nothing is under way."""
    return browser.execute_script(
        "return document.body.dataset.level === '0' && document.getElementById('busy').hidden"
    )


def main(folder):
    from PIL import Image
    from selenium.webdriver.common.action_chains import ActionChains

    with tempfile.TemporaryDirectory() as work:
        path = Path(work, "sea-surface")
        make(path)
        browser = chromium(Path(work, "profile"), 1240, 840)
        try:
            with Server(path, "--no-browser") as server:

                def take(name, theme, fragment, keys=""):
                    browser.get("about:blank")
                    browser.get(f"{server.url}&{fragment}")
                    until(lambda: settled(browser))
                    browser.execute_script(
                        "const b = document.getElementById('theme');"
                        "while (b.dataset.theme !== arguments[0]) b.click();"
                        "document.getElementById('stage').focus({focusVisible: false})",
                        theme,
                    )
                    if keys:
                        ActionChains(browser).send_keys(keys).perform()
                    # Labels and what lies over the picture come after it.
                    browser.execute_async_script("setTimeout(arguments[0], 1500)")
                    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png()))
                    small = picture.convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE)
                    small.save(Path(folder, name), optimize=True)

                base = "name=sea-surface&rows=1&columns=2&along=0&map="
                take("view.png", "light", f"{base}Dusk&at=17,92,128")
                take("view-growth.png", "dark", f"{base}Ice&at=40,150,300", "g")
        finally:
            browser.quit()


if __name__ == "__main__":
    main(sys.argv[1])
