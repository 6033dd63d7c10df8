"""The page in a real Chromium, as a person sees it, clicks and types."""

from __future__ import annotations

from urllib.parse import urlsplit

import numpy as np
import pytest
from viewing import Server, chromium, missing_browser, until

import extarray as xa

MISSING = missing_browser()

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
    # Selenium leaves its channels to the driver open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

DATA = np.random.default_rng(0).standard_normal((6, 20, 30)).astype("f4")
DATA[:, 5, 7] = np.nan
#: Controls and texts that are cut off, or reach beyond the window.
CUT = """
return [...document.querySelectorAll('main button, main select, main input, main output, #fillrow')]
  .filter((e) => e.checkVisibility() && (e.scrollWidth > e.clientWidth + 1 && e.tagName !== 'SELECT'
    || e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().left < 0))
  .map((e) => `${e.id} ${e.value ?? e.textContent}`)
"""
LATITUDES = np.linspace(-88, 88, 45, dtype="f4")[:, None]
PHOTO = np.zeros((30, 40, 3), "u1")
PHOTO[:15, :, 0] = PHOTO[:, 20:, 2] = 255
CELLS = np.zeros((4, 16, 24), "u2")
CELLS[0, :8] = 1000
CELLS[1, :, :12] = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arrays")
    with xa.create(
        folder / "scene",
        (0, 20, 30),
        "f4",
        chunks=(2, 8, 8),
        dims=("time", "y", "x"),
        fill_value=-9,
    ) as a:
        a.append(DATA)
        a.extend(2, 4)
        a.attrs["coords"] = {"time": {"dims": ["time"], "data": list("abcdefghij"), "origin": [0]}}
    records = np.zeros((4, 5), [("when", "M8[m]"), ("speed", "f8"), ("tag", "S3")])
    records["when"] = np.datetime64("2024-05-01T12:00") + np.arange(5)
    records["speed"] = np.arange(20).reshape(4, 5)
    xa.from_array(records, folder / "records").close()
    xa.from_array((1 + 1j) * np.arange(6).reshape(2, 3), folder / "waves").close()
    xa.from_array(np.eye(4, dtype=bool), folder / "mask").close()
    xa.from_array(np.arange(3000) % 7, folder / "line").close()
    xa.full((), 7, "i4", path=folder / "single").close()
    xa.create(folder / "empty", (0, 3), "u2").close()
    coords = {
        "lat": {"data": np.linspace(-88, 88, 45).tolist(), "attrs": {"units": "degrees_north"}},
        "lon": {"data": np.linspace(2, 358, 90).tolist(), "attrs": {"units": "degrees_east"}},
    }
    xa.from_array(
        LATITUDES + np.zeros(90, "f4"),
        folder / "world",
        dims=("lat", "lon"),
        attrs={
            "coords": {dim: {"dims": [dim], **form} for dim, form in coords.items()},
            "units": "K",
            "long_name": "Warmth",
        },
    ).close()
    xa.from_array(PHOTO, folder / "photo").close()
    xa.from_array(CELLS, folder / "cells", dims=("channel", "y", "x")).close()
    xa.from_array(np.array([["one", "two"], ["three", "four"]] * 50), folder / "words").close()
    xa.from_array(2**64 - 1 - np.arange(600, dtype="u8").reshape(20, 30), folder / "big").close()
    decades = np.zeros((6, 8))
    decades[:, 1:] = 10.0 ** np.arange(-3, 4)
    xa.from_array(decades, folder / "decades").close()
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = chromium(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def server(folder):
    with Server(folder, "--no-browser") as server:
        yield server


class Page:
    """The page, as a person uses it."""

    def __init__(self, browser, url):
        self.browser = browser
        browser.get("about:blank")
        browser.get(url)
        until(self.is_ready)

    def is_ready(self):
        return self.js("return document.body.dataset.shape !== undefined")

    def js(self, code, *args):
        return self.browser.execute_script(code, *args)

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def text(self, name):
        return self.js("return document.getElementById(arguments[0]).textContent", name)

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        actions = ActionChains(self.browser)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def focus(self):
        self.js("document.getElementById('stage').focus()")

    def show(self, name):
        self.js(
            "[...document.querySelectorAll('#tree [aria-selected]')]"
            ".find((item) => item.dataset.path === `${arguments[0]}\\n`)"
            ".querySelector('.line').click()",
            name,
        )
        until(lambda: self.text("title") == name)

    def sees(self, name, text):
        """Wait until an element has a text."""
        until(lambda: text in self.text(name) or None)
        return True

    def pixel(self, x, y):
        """Return the colour of the picture at a place, in CSS pixels of the stage."""
        return self.js(
            "const c = document.getElementById('picture'), r = devicePixelRatio;"
            "return [...c.getContext('2d').getImageData("
            "arguments[0] * r, arguments[1] * r, 1, 1).data]",
            x,
            y,
        )

    def pointer(self, x, y, click=False):
        """Move the pointer to a place of the stage."""
        from selenium.webdriver.common.action_chains import ActionChains

        stage = self.find("#stage")
        size = stage.size
        dx, dy = round(x - size["width"] / 2), round(y - size["height"] / 2)
        actions = ActionChains(self.browser).move_to_element_with_offset(stage, dx, dy)
        (actions.click() if click else actions).perform()

    def place(self, row, column, shape):
        """Return the middle of an element when all is shown, in CSS pixels of the stage.

        The page keeps 76 pixels free at the left, 12 at the top, 14 at the right, 42 below; the
        elements are squares.
        """
        size = self.find("#stage").size
        width, height = size["width"] - 90, size["height"] - 54
        side = min(width / shape[1], height / shape[0])
        left = 76 + (width - side * shape[1]) / 2
        top = 12 + (height - side * shape[0]) / 2
        return left + (column + 0.5) * side, top + (row + 0.5) * side


@pytest.fixture
def page(browser, server):
    browser.get_log("browser")  # discard the log of other tests
    page = Page(browser, server.url)
    page.show("scene")
    page.focus()
    until(lambda: page.js("return document.body.dataset.frame > 0"))
    yield page
    # The page used nothing that its policy forbids, and raised no error.
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


def value(page, *at):
    return str(DATA[at])


def test_the_token_leaves_the_address_and_a_reload_stays(page, server):
    assert "token" not in page.js("return location.href")
    page.keys("]", "]")
    page.sees("where", "time 2")
    until(lambda: "at=2%2C10%2C17" in page.js("return location.href"))
    page.browser.refresh()
    until(page.is_ready)
    assert page.sees("where", "time 2")
    # Another tab has no token unless it gets the address.
    first = page.browser.current_window_handle
    page.browser.switch_to.new_window("tab")
    page.browser.get(server.url.partition("#")[0])
    until(lambda: "token is missing" in page.text("notice"))
    page.browser.close()
    page.browser.switch_to.window(first)


def test_keys_move_the_cursor_and_the_slice(page):
    assert page.sees("where", "time 0 (a)  ·  y 10  ·  x 17")
    assert page.sees("value", value(page, 0, 10, 17))
    from selenium.webdriver.common.keys import Keys

    page.keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.sees("where", "y 11  ·  x 19")
    assert page.sees("value", value(page, 0, 11, 19))
    page.keys("]", "]", "]", "[")
    assert page.sees("where", "time 2 (c)")
    assert page.sees("value", value(page, 2, 11, 19))
    page.keys(Keys.END)
    assert page.sees("where", "time 5 (f)")


def test_a_slider_chooses_the_slice(page):
    slider = page.find("#axes input[type=range]")
    assert slider.get_attribute("aria-label") == "time"
    from selenium.webdriver.common.keys import Keys

    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.sees("where", "time 3 (d)")
    assert page.sees("value", value(page, 3, 10, 17))
    assert slider.get_attribute("aria-valuetext") == "3, d"


def test_any_two_axes_can_be_shown(page):
    page.find("[data-key='0 rows']").click()
    assert page.find("#axes input[type=range]").get_attribute("aria-label") == "y"
    frame = page.js("return document.body.dataset.frame")
    page.focus()
    page.keys("]")
    assert page.sees("where", "y 11")
    until(lambda: page.js("return document.body.dataset.frame") != frame)
    assert page.sees("value", value(page, 0, 11, 17))
    page.keys("t")
    assert page.find("[data-key='0 columns']").get_attribute("aria-pressed") == "true"
    assert page.find("[data-key='2 rows']").get_attribute("aria-pressed") == "true"


def test_the_value_under_the_pointer(page):
    for row, column in [(0, 0), (7, 20), (19, 29)]:
        page.pointer(*page.place(row, column, (20, 34)))
        assert page.sees("where", f"y {row}  ·  x {column}")
        assert page.sees("value", value(page, 0, row, column))
    page.pointer(*page.place(5, 7, (20, 34)), click=True)
    assert page.sees("value", "nan")
    assert "at=0%2C5%2C7" in until(
        lambda: page.js("return location.href.includes('C5%2C7') && location.href")
    )


def test_numbers_are_coloured_and_what_is_none_is_hatched(page):
    from itertools import product

    def colours(row, column):
        x, y = page.place(row, column, (20, 34))
        return {tuple(page.pixel(x + dx, y + dy)) for dx, dy in product((-5, 0, 5), repeat=2)}

    page.keys("f")
    low, high = (
        np.unravel_index(function(DATA[0]), DATA[0].shape)
        for function in (np.nanargmin, np.nanargmax)
    )
    (dark,), (bright,) = colours(*low), colours(*high)
    assert sum(dark[:3]) < sum(bright[:3])
    assert len(colours(5, 7)) > 1  # NaN
    assert len(colours(5, 32)) > 1  # the fill value
    assert page.find("#nan").is_displayed()
    page.find("#fill").click()
    until(lambda: len(colours(5, 32)) == 1)
    assert len(colours(5, 7)) > 1


def test_the_range_of_the_colours(page):
    def ends():
        return [float(page.js(f"return {e}.value").replace("−", "-")) for e in ("low", "high")]

    known = DATA[0][~np.isnan(DATA[0])]
    page.keys("f")
    until(lambda: np.allclose(ends(), [known.min(), known.max()], rtol=1e-4))
    page.keys("a")
    until(lambda: known.min() < ends()[0] < ends()[1] < known.max())
    from selenium.webdriver.common.keys import Keys

    low = page.find("#low")
    low.send_keys(Keys.CONTROL, "a")
    low.send_keys("-0.5\n")
    until(lambda: ends()[0] == -0.5)
    assert page.find("#auto").get_attribute("aria-pressed") == "false"
    low.send_keys(Keys.CONTROL, "a")
    low.send_keys("much\n")
    assert low.get_attribute("aria-invalid") == "true"
    page.focus()
    page.keys("]")
    assert page.sees("where", "time 1")
    assert ends()[0] == -0.5  # the range is held


def test_other_data_types(page):
    page.show("records")
    assert page.sees("value", "2024-05-01T12:02")
    page.js("field.value = 1; field.dispatchEvent(new Event('change'))")
    assert page.sees("value", "12.0")
    page.js("field.value = 2; field.dispatchEvent(new Event('change'))")
    until(lambda: page.js("return document.getElementById('mode').value") == "table")
    page.js("field.value = 1; field.dispatchEvent(new Event('change'))")
    until(lambda: page.js("return document.getElementById('mode').value") == "colours")
    page.show("waves")
    page.js("part.value = 'phase'; part.dispatchEvent(new Event('change'))")
    until(lambda: page.js("return document.getElementById('map').value") == "Circle")
    assert page.sees("value", "(4+4j)")
    page.show("mask")
    assert page.sees("value", "True")
    page.show("line")
    assert page.sees("value", str(1500 % 7))
    page.show("single")
    assert page.sees("value", "7")
    page.show("empty")
    assert page.sees("value", "no elements yet")


def choose(page, name, option):
    page.js(
        "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('change'))",
        name,
        option,
    )


def drawn(page, name):
    """Show an array, and wait for its picture."""
    page.show(name)
    until(lambda: page.js("return document.body.dataset.shape") is not None)
    before = page.js("return document.body.dataset.frame ?? 0")
    page.keys("0")
    until(lambda: page.js("return document.body.dataset.frame ?? 0") != before)
    page.focus()


def test_north_is_up_unless_it_is_flipped(page):
    def colours():
        x, top = page.place(1, 20, (45, 90))
        _, bottom = page.place(43, 20, (45, 90))
        return page.pixel(x, top), page.pixel(x, bottom)

    drawn(page, "world")
    above, below = colours()
    assert sum(above) > sum(below)  # the north is warm here
    # An element is where it is drawn.
    page.pointer(*page.place(0, 20, (45, 90)))
    assert page.sees("where", "lat 44 (88 °N)")
    assert page.sees("value", "88.0 K")
    assert "Warmth (K)" in page.text("facts")
    from selenium.webdriver.common.keys import Keys

    page.pointer(*page.place(44, 20, (45, 90)), click=True)
    assert page.sees("where", "lat 0 (-88 °N)")
    page.focus()
    page.keys(Keys.ARROW_UP)
    page.pointer(2, 2)
    assert page.sees("where", "lat 1 ")
    page.keys("y")
    until(lambda: colours() == (below, above))
    assert page.find("[data-key='0 flip']").get_attribute("aria-pressed") == "false"
    until(lambda: "flips=&" in f"{page.js('return location.href')}&")
    page.browser.refresh()
    until(page.is_ready)
    until(lambda: colours() == (below, above))


def test_a_line_shows_an_array_of_one_axis(page):
    page.show("line")
    until(lambda: page.js("return document.getElementById('mode').value") == "lines")
    assert not page.find("#along").is_displayed()
    page.focus()
    page.keys("]")
    page.sees("note", "extremes of")
    page.keys(*"+" * 12)
    until(lambda: "extremes" not in page.text("note"))
    page.keys("m")
    until(lambda: page.js("return document.getElementById('mode').value") == "colours")


def test_colours_of_a_photo(page):
    drawn(page, "photo")

    def seen(row, column):
        return page.pixel(*page.place(row, column, (30, 40)))[:3]

    until(lambda: seen(3, 5) == [255, 0, 0])
    assert (seen(3, 30), seen(25, 30)) == ([255, 0, 255], [0, 0, 255])
    page.pointer(*page.place(3, 30, (30, 40)))
    assert page.sees("value", "R 255 · G 0 · B 255")


def test_channels_have_colours_and_ranges_of_their_own(page):
    drawn(page, "cells")

    def seen(row, column):
        return page.pixel(*page.place(row, column, (16, 24)))[:3]

    until(lambda: seen(3, 3) == [63, 255, 255])  # blue and green
    assert (seen(3, 20), seen(12, 3), seen(12, 20)) == ([63, 127, 255], [0, 230, 77], [0, 0, 0])
    boxes = page.browser.find_elements("css selector", "#channels input[type=checkbox]")
    assert [box.get_attribute("aria-label") for box in boxes] == [
        f"Show channel {k}" for k in range(4)
    ]
    boxes[0].click()
    until(lambda: seen(3, 20) == [0, 0, 0])
    page.browser.find_elements("css selector", "#channels button")[1].click()
    high = page.find("#high")
    assert high.get_attribute("value") == "50"
    from selenium.webdriver.common.keys import Keys

    high.send_keys(Keys.CONTROL, "a")
    high.send_keys("100\n")
    until(lambda: seen(12, 3) == [0, 115, 38])
    page.pointer(*page.place(3, 3, (16, 24)))
    assert page.sees("value", "channel 0: 1000 · channel 1: 50 · channel 2: 0 · channel 3: 0")


def test_words_and_numbers_in_a_table(page):
    page.show("words")
    until(lambda: "three" in page.text("table"))
    from selenium.webdriver.common.keys import Keys

    page.focus()
    page.keys(*[Keys.ARROW_DOWN] * 45)
    assert page.sees("where", "axis 0 95")
    until(lambda: page.js("return document.querySelector('#table td.here')?.textContent") == "four")
    assert page.sees("value", "'four'")
    page.show("big")
    choose(page, "mode", "table")
    until(lambda: str(2**64 - 1 - 10 * 30 - 15) in page.text("table"))


def test_large_integers_are_exact_in_the_range(page):
    drawn(page, "big")
    page.keys("f")
    until(lambda: page.find("#low").get_attribute("value") == str(2**64 - 600))
    assert page.find("#high").get_attribute("value") == str(2**64 - 1)


def test_scales(page):
    drawn(page, "decades")

    def seen(column):
        return tuple(page.pixel(*page.place(1.7, column - 0.3, (6, 8))))  # beside the number

    page.keys("f")
    until(lambda: seen(1) == seen(2) != seen(7))  # linear: thousandths look like hundredths
    choose(page, "scale", "log")
    until(lambda: len({seen(k) for k in range(1, 8)}) == 7)
    assert page.find("#none").is_displayed()
    page.focus()
    page.keys("s")
    until(lambda: not page.find("#none").is_displayed())
    assert len({seen(k) for k in range(8)}) == 8


def test_nothing_and_single_values_are_said(page):
    page.show("empty")
    assert page.sees("say", "This array is empty: 0 × 3 elements.")
    page.show("single")
    assert page.sees("say", "7")
    assert not page.find("#colourcard").is_displayed()


def test_what_is_shown_is_saved(page, tmp_path):
    page.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.keys("+", "+", "+")
    until(lambda: "20 × 34" not in page.text("note"))

    def saved(kind):
        page.find(f"#save{kind}").click()
        return until(lambda: next(tmp_path.glob(f"*.{kind}"), None))

    box = np.load(saved("npy"))
    rows, columns = box.shape
    assert rows < 20 and columns < 34
    lines = saved("csv").read_text().splitlines()
    across = [int(text) for text in lines[0].split(",")[1:]]
    down = [int(line.partition(",")[0]) for line in lines[1:]]
    assert (len(down), len(across)) == box.shape
    whole = np.full((20, 34), -9, "f4")
    whole[:, :30] = DATA[0]
    np.testing.assert_array_equal(box, whole[np.ix_(down, across)])
    assert saved("png").read_bytes()[:4] == b"\x89PNG"


def test_ticks_and_texts(page):
    """Round values, whose texts tell them apart."""

    def ticks(low, high, most, kind="number", unit="", zero="0", **look):
        return page.js(
            "const [low, high, most, choice, zero, look] = arguments;"
            "return import('./scales.js').then((m) => m.valueTicks(low, high, most, choice,"
            " {...look, zero: BigInt(zero)})).then((f) => [f.offset, ...f.ticks.map(t => t.text)])",
            low,
            high,
            most,
            {"kind": kind, "unit": unit},
            zero,
            look,
        )

    assert ticks(-2.3, 7.1, 5) == ["", "−2", "0", "2", "4", "6"]
    assert ticks(0.1, 0.42, 5) == ["", "0.1", "0.2", "0.3", "0.4"]
    assert ticks(-90, 90, 6, isRound=True) == ["", "−90", "−60", "−30", "0", "30", "60", "90"]
    assert ticks(0, 37, 5, zero=str(2**64 - 40)) == [
        "18446744073709551000",
        "+580",
        "+590",
        "+600",
        "+610",
    ]
    assert ticks(1, 1e6, 9, scale="log") == ["", "1", "10", "100", "1000", "10000", "10⁵", "10⁶"]
    found = ticks(-1e4, 1e4, 5, scale="symlog", linear=1)
    assert found == ["", "−10000", "−100", "−1", "0", "1", "100", "10000"]
    first = np.datetime64("2022-01-08").astype(int)
    assert ticks(0, 900, 5, "datetime", "1 D", str(first)) == [
        "",
        "2022-07",
        "2023-01",
        "2023-07",
        "2024-01",
    ]
    nanoseconds = str(np.datetime64("2024-05-01", "ns").astype(int))
    assert ticks(0, 300, 3, "datetime", "1 ns", nanoseconds)[2] == "2024-05-01 00:00:00.0000001"
    text = page.js(
        "const [x, unit, zero] = arguments; return import('./text.js').then((m) => {"
        "const choice = {kind: 'datetime', unit};"
        "const text = m.valueText(x, choice, {zero: BigInt(zero)});"
        "return [text, m.parse(text, choice, BigInt(zero))]; })",
        17,
        "1 ns",
        nanoseconds,
    )
    assert text == ["2024-05-01 00:00:00.000000017", 17]


def test_no_two_controls_have_the_same_name(page):
    for name in ("scene", "world", "cells", "records"):
        page.show(name)
        until(lambda: page.text("value"))
        names = page.js(
            "return [...document.querySelectorAll('button, select, input, canvas + button')]"
            ".filter((e) => e.checkVisibility()).map((e) => e.getAttribute('aria-label') ??"
            " (e.labels?.[0]?.textContent || e.textContent).trim())"
        )
        assert len(set(names)) == len(names), sorted(names)
        assert all(names)


def test_zooming_shows_fewer_elements(page):
    page.keys("+", "+", "+", "+", "+")
    until(lambda: "20 × 34" not in page.text("note"))
    page.keys("0")
    assert page.sees("note", "20 × 34")


def test_the_growth_map_tells_chunks(page):
    assert page.sees("growthtext", "45 chunks in 2 segments")
    page.keys("g")
    assert page.find("#ongrid").get_attribute("aria-pressed") == "true"
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(page.browser).move_to_element(page.find("#growth")).perform()
    assert page.sees("growthtext", "chunk 0, 1, 2 · address 6 · segment 1")


def test_themes(page):
    def ground():
        return page.js("return getComputedStyle(document.body).backgroundColor")

    seen = {}
    for _ in range(3):
        page.find("#theme").click()
        seen[page.text("theme")] = ground()
    assert set(seen) == {"System", "Light", "Dark"}
    assert seen["Light"] != seen["Dark"]


def test_keys_are_told(page):
    page.keys("?")
    assert page.find("#keys").is_displayed()
    from selenium.webdriver.common.keys import Keys

    page.keys(Keys.ESCAPE)
    assert not page.find("#keys").is_displayed()


def test_the_page_follows_an_array_that_grows(browser, tmp_path, script):
    path = tmp_path / "live"
    xa.create(path, (0, 10), "i4", chunks=(4, 10), dims=("time", "x")).close()
    writer = script.start(
        """
import sys
import numpy as np
import extarray as xa
with xa.open(sys.argv[1], mode="r+") as a:
    for line in sys.stdin:
        n = int(line)
        if n < 0:
            a[:] = -n
        else:
            a.append(np.full((n, 10), n, "i4"))
""",
        path,
    )

    def tell(n):
        writer.stdin.write(f"{n}\n")
        writer.stdin.flush()

    with writer, Server(path, "--no-browser") as server:
        page = Page(browser, server.url)
        assert page.sees("value", "no elements yet")
        tell(3)
        until(lambda: page.js("return document.body.dataset.shape") == "3,10")
        assert page.sees("value", "3")
        tell(5)
        until(lambda: page.js("return document.body.dataset.shape") == "8,10")
        assert page.sees("facts", "8 × 10")
        # An overwritten element shows too, without a reload or news.
        tell(-77)
        assert page.sees("value", "77")
        page.find("#live").click()
        assert page.find("#live").get_attribute("aria-pressed") == "false"
        writer.stdin.close()
        assert writer.wait(60) == 0
    until(lambda: server.process.poll() is not None)
    page.find("#live").click()
    assert page.sees("notice", "does not respond")


def test_a_deleted_array_is_told(browser, tmp_path):
    xa.from_array(np.arange(12).reshape(3, 4), tmp_path / "brief").close()
    with Server(tmp_path / "brief", "--no-browser") as server:
        page = Page(browser, server.url)
        until(lambda: page.js("return document.body.dataset.frame > 0"))
        assert "lost" not in page.find("#live").get_attribute("class")
        for suffix in (".xmd", ".xta"):
            (tmp_path / "brief").with_suffix(suffix).unlink()
        assert page.sees("notice", "the array was deleted or moved")
        assert "on_replaced" not in page.text("notice")
        assert "lost" in page.find("#live").get_attribute("class")
        xa.from_array(np.arange(6), tmp_path / "brief").close()
        until(lambda: page.js("return document.body.dataset.shape") == "6")
        assert "lost" not in page.find("#live").get_attribute("class")
        assert not page.find("#notice").is_displayed()


def test_narrow_windows_show_the_value(browser, server):
    size = browser.get_window_size()
    try:
        for width in (390, 320):
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False},
            )
            page = Page(browser, server.url)
            page.show("scene")
            until(lambda page=page: page.text("value"))
            for name in ("value", "where", "note", "zoom", "facts", "toggletree", "profileaxes"):
                box = page.js(
                    "const e = document.getElementById(arguments[0]);"
                    "const b = e.getBoundingClientRect();"
                    "return [b.left, b.right, e.scrollWidth - e.clientWidth]",
                    name,
                )
                assert box[0] >= 0 and box[1] <= width and box[2] <= 1, (name, width, box)
            assert page.js("return document.documentElement.scrollWidth") <= width
            for name in ("big", "cells", "line", "words", "records"):
                page.show(name)
                until(lambda page=page: page.text("value"))
                assert page.js(CUT) == [], (name, width)
            low = "return document.getElementById('value').getBoundingClientRect().bottom"
            assert page.js(low) <= 700
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.set_window_size(size["width"], size["height"])


@pytest.fixture
def seven(browser, request):
    """Yield a function that opens an address in seven tabs or windows; the last is in front."""
    opened = []
    first = browser.current_window_handle

    def open_all(url):
        for _ in range(7):
            browser.switch_to.new_window(request.param)
            opened.append((browser.current_window_handle, Page(browser, url)))
        return opened

    yield open_all
    for handle, _ in opened:
        browser.switch_to.window(handle)
        browser.close()
    browser.switch_to.window(first)


@pytest.mark.parametrize("seven", ["tab", "window"], indirect=True)
def test_seven_pages_follow_an_array(seven, tmp_path):
    # A browser has six connections to a server, for all of its tabs.
    path = tmp_path / "live"
    xa.create(path, (3, 10), "i4", chunks=(4, 10), dims=("time", "x"), fill_value=5).close()

    def all_see(shape, value):
        for handle, page in pages:
            page.browser.switch_to.window(handle)
            until(lambda page=page: page.js("return document.body.dataset.shape") == shape)
            assert page.sees("value", value)

    with Server(path, "--no-browser") as server:
        pages = seven(server.url)
        all_see("3,10", "5")
        with xa.open(path, mode="r+") as a:
            a.append(np.full((3, 10), 7, "i4"))
            a[:] = 7
        all_see("6,10", "7")
        # Files that replace the old ones are shown instead, and followed as well.
        xa.create(path, (2, 2), "f8", fill_value=8.5, overwrite=True).close()
        all_see("2,2", "8.5")
        with xa.open(path, mode="r+") as a:
            a.extend(0, 1)
        all_see("3,2", "8.5")
        port = urlsplit(server.url).port
    _, front = pages[-1]
    assert front.sees("notice", "does not respond")
    # A server that takes its place has another token.
    with Server(path, "--no-browser", "--port", str(port)) as server:
        assert front.sees("notice", "does not accept the token")
        for handle, page in pages:
            page.browser.switch_to.window(handle)
            page.browser.get(server.url)
            until(lambda page=page: "token" not in page.js("return location.href"))
        with xa.open(path, mode="r+") as a:
            a.extend(0, 2)
        all_see("5,2", "8.5")


@pytest.mark.parametrize("seven", ["tab"], indirect=True)
def test_a_hidden_tab_asks_nothing_until_it_is_seen(seven, tmp_path):
    path = tmp_path / "live"
    xa.create(path, (3, 10), "i4", chunks=(4, 10)).close()
    with Server(path, "--no-browser") as server:
        pages = seven(server.url)
        (hidden, page), (shown, _) = pages[0], pages[-1]
        page.browser.switch_to.window(hidden)
        page.js(
            "window.changes = [];"
            "const tell = () => changes.push(`${document.hidden} ${document.body.dataset.shape}`);"
            "document.addEventListener('visibilitychange', tell);"
            "new MutationObserver(tell).observe(document.body, {attributeFilter: ['data-shape']})"
        )
        page.browser.switch_to.window(shown)
        with xa.open(path, mode="r+") as a:
            a.extend(0, 4)
        until(lambda: page.js("return document.body.dataset.shape") == "7,10")
        page.browser.switch_to.window(hidden)
        until(lambda: page.js("return document.body.dataset.shape") == "7,10")
        changes = page.js("return changes")
        assert changes[:2] == ["true 3,10", "false 3,10"]
        assert set(changes[2:]) == {"false 7,10"}


def test_the_tree_is_searched_and_walked_by_keys(page, folder):
    from selenium.webdriver.common.keys import Keys

    labels = (
        "return [...document.querySelectorAll('#tree [role=treeitem]')]"
        ".map((item) => item.querySelector('.label').textContent)"
    )
    focused = "return document.activeElement.querySelector('.label')?.textContent"
    names = sorted(path.stem for path in folder.glob("*.xmd"))
    assert page.js(labels) == names
    page.keys("/", "WAV")
    until(lambda: page.js(labels) == ["waves"])
    assert page.text("found") == f"1 of {len(names)} arrays"
    page.keys(Keys.ARROW_DOWN)
    assert page.js(focused) == "waves"
    page.keys(Keys.ENTER)
    page.sees("title", "waves")
    page.find("#search").send_keys(Keys.ESCAPE)
    until(lambda: page.js(labels) == names)
    page.keys(Keys.ARROW_DOWN, Keys.END)
    assert page.js(focused) == names[-1]
    page.keys(Keys.HOME, Keys.ARROW_DOWN)
    assert page.js(focused) == names[1]
    page.keys(Keys.SPACE)
    page.sees("title", names[1])
    roles = page.js(
        "const t = document.getElementById('tree');"
        "return [t.getAttribute('role'), t.querySelectorAll('[tabindex=\"0\"]').length]"
    )
    assert roles == ["tree", 1]


def test_groups_of_a_file_and_names_that_are_no_html(browser, tmp_path):
    h5py = pytest.importorskip("h5py")
    evil = "<img src=x onerror=alert(1)>"
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f[f"run 1/{evil}"] = DATA
        f["run 1"].attrs["note"] = evil
    with Server(tmp_path / "x.h5", "--no-browser") as server:
        page = Page(browser, server.url)
        assert page.text("title") == f"run 1/{evil}"
        page.find("#tree .group .line").click()  # closes the group
        assert page.js("return document.querySelectorAll('#tree [role=treeitem]').length") == 1
        assert page.text("grouplist") == f"note'{evil}'"
        assert page.js("return document.querySelectorAll('#there img').length") == 0
        with h5py.File(tmp_path / "x.h5", "r+") as f:  # the viewer does not lock it
            f["run 2/more"] = [1, 2]
        until(lambda: "run 2" in page.text("tree"))


def test_code_that_reads_what_is_shown(page):
    page.keys("]", "]", "]")
    until(lambda: "a[3, :, :]" in page.text("code"))
    made = {}
    exec(page.text("code"), made)
    with made["a"]:
        np.testing.assert_array_equal(made["shown"][:, :30], DATA[3])
    for _ in range(4):
        page.find("#in").click()
    page.keys("t")
    until(lambda: page.text("code").endswith(".T"))
    page.show("waves")
    until(lambda: "np.abs(a[" in page.text("code"))
    page.show("records")
    until(lambda: page.text("code").endswith("a[:, :]['when']"))


@pytest.mark.parametrize(
    ("attrs", "offset"),
    [
        ({"scale_factor": 0.1, "add_offset": 5.0, "_FillValue": 7, "units": "K"}, 5),
        ({"_Unsigned": "true", "scale_factor": 0.1}, 0),
    ],
)
def test_packed_numbers_and_code_that_unpacks_them(browser, tmp_path, attrs, offset):
    stored = np.arange(-6, 6, dtype="i1").reshape(3, 4)
    xa.from_array(stored, tmp_path / "x", attrs=attrs).close()
    with Server(tmp_path / "x", "--no-browser") as server:
        page = Page(browser, server.url)
        numbers = stored.view("u1") if "_Unsigned" in attrs else stored
        value = numbers.astype("f4") * np.float32(0.1) + np.float32(offset)
        page.sees("value", str(value[1, 2]))
        page.sees("facts", "float32 stored as int8")
        until(lambda: "shown" in page.text("code"))
        made = {}
        exec(page.text("code"), made)
        made["a"].close()
        if "_FillValue" in attrs:
            value[stored == 7] = np.nan
        np.testing.assert_array_equal(made["shown"], value)
        page.js(
            "const s = document.getElementById('field'); s.value = '1';"
            "s.dispatchEvent(new Event('change'))"
        )
        until(lambda: page.text("value") == str(stored[1, 2]))
        until(lambda: page.text("code").endswith("shown = a[:, :]"))


def test_a_link_opens_the_same_view(page, server):
    page.keys("]", "]")
    for _ in range(3):
        page.find("#in").click()
    page.js(
        "const s = document.getElementById('other'); s.value = 'mask';"
        "s.dispatchEvent(new Event('change'))"
    )
    page.sees("othername", "mask")
    until(lambda: "with=mask" in page.js("return location.href"))
    until(lambda: "window=" in page.js("return location.href"))
    code = page.text("code")
    permissions = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    page.browser.execute_cdp_cmd("Browser.grantPermissions", permissions)
    page.find("#copylink").click()
    page.sees("copied", "clipboard")
    link = page.browser.execute_async_script(
        "navigator.clipboard.readText().then(arguments[arguments.length - 1])"
    )
    assert link.startswith(server.url)
    again = Page(page.browser, link)
    again.sees("where", "time 2 (c)")
    until(lambda: again.text("code") == code)
    again.sees("othername", "mask")


def test_a_link_keeps_ranges_scale_and_marks(page):
    choose(page, "scale", "symlog")
    choose(page, "linear", "0.25")
    page.find("#full").click()
    page.find("#fill").click()
    page.focus()
    page.keys("e", "g")
    kept = """
        const pressed = (id) => document.getElementById(id).getAttribute('aria-pressed');
        return [pressed('full'), pressed('ongrid'), document.getElementById('fill').checked,
            ...['scale', 'linear', 'low', 'high'].map((id) => document.getElementById(id).value)]
    """
    until(lambda: "square=0" in page.js("return location.href"))
    before = page.js(kept)
    assert before[:5] == ["true", "true", False, "symlog", "0.25"]
    page.browser.refresh()
    until(page.is_ready)
    until(lambda: page.js(kept) == before)
    # Numbers that are no distance leave the scale as it is; none at all leaves it to the page.
    choose(page, "linear", "-1")
    assert page.find("#linear").get_attribute("aria-invalid") == "true"
    choose(page, "linear", "")
    until(lambda: "linear" not in page.js("return location.href"))
    drawn(page, "cells")
    choose(page, "low", "7")
    until(lambda: "7%2C" in page.js("return location.href"))
    page.browser.refresh()
    until(page.is_ready)
    until(lambda: page.js("return document.getElementById('low').value") == "7")


def test_numbers_in_cells_have_no_digits_that_are_not_there(page):
    """They come as float32: of a month in nanoseconds seconds remain, but no nanoseconds."""
    start = np.datetime64("2024-05-01T00:00:00", "ns")
    date = {"kind": "datetime", "unit": "1 ns"}
    cases = []
    for hours in (0, 1, 337, 700):
        when = start + np.timedelta64(hours, "h")
        x = float(np.float32((when - start).astype("i8")))
        told = str(when)[:16].replace("T", " ") if hours else "2024-05-01"
        cases.append((x, date, int(start.astype("i8")), told))
    cases.append((float(np.float32(10**15 + 1)), {"kind": "number"}, 2**60, "1.15e18"))
    cases.append((3.0, {"kind": "number"}, 2**60, str(2**60 + 3)))
    cases.append((1e7, {"kind": "number"}, 0, "1e7"))
    for x, choice, zero, wanted in cases:
        told = page.browser.execute_async_script(
            "const [x, choice, zero, done] = arguments;"
            "import('/text.js').then((m) => done(m.roundedText(x, choice, BigInt(zero))))",
            x,
            choice,
            str(zero),
        )
        assert told == wanted, (x, choice, zero)


def test_two_arrays_have_linked_cursors(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    xa.from_array(DATA, tmp_path / "one", dims=("time", "y", "x")).close()
    coords = {"x": {"dims": ["x"], "data": ["a"] * 15 + ["b"] * 15}}
    xa.from_array(-DATA[0], tmp_path / "two", dims=("y", "x"), attrs={"coords": coords}).close()
    with Server(tmp_path, "--no-browser") as server:
        page = Page(browser, server.url)
        page.js(
            "const s = document.getElementById('other'); s.value = 'two';"
            "s.dispatchEvent(new Event('change'))"
        )
        until(lambda: page.js("return document.body.dataset.other > 0"))
        page.focus()
        page.keys(Keys.ARROW_DOWN, "]")
        page.sees("value", str(DATA[1, 11, 15]))
        page.sees("othervalue", str(-DATA[0, 11, 15]))
        assert page.sees("otherplace", "y 11  ·  x 15 (b)")
        page.find("#over").click()
        assert page.js("return document.getElementById('overpicture').hidden") is False
        assert page.js("return document.getElementById('otherstage').hidden") is True
        with xa.open(tmp_path / "two", "r+") as a:
            a[11, 15] = 7
            page.sees("othervalue", "7.0")
            a.extend(1, 2)
            a[11, 15] = 8
        page.sees("othervalue", "8.0")
