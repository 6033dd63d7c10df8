"""docs/format/reader.c reads what NumPy reads, and nothing makes it crash."""

import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import warnings
from math import prod
from pathlib import Path

import c_reader
import format_reader
import fuzz_packed
import fuzz_pairs
import numpy as np
import pytest
from dice import Dice
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import extarray as xa

pytestmark = [
    pytest.mark.thread_unsafe,  # examples write to the same files
    pytest.mark.process,
    pytest.mark.skipif(c_reader.compiler() is None, reason="there is no C compiler"),
]

QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

AS_LIBRARY = ["-shared", "-fPIC", "-DEXTARRAY_NO_MAIN"]

TYPES = ["|b1", "|i1", "|u1", "<i2", ">i2", "<u4", ">u8", "<i8", "<f2", ">f4", "<f8", ">c8", "<c16"]
TYPES += ["|S1", "|S5", "<U3", ">U2", "|V3", "<M8[ms]", ">M8[D]", "<m8[25s]", "<m8", ">m8[100ns]"]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    try:
        made = c_reader.CReader(tmp_path_factory.mktemp("driver"))
    except FileNotFoundError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("arrays")


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    program = tmp_path_factory.mktemp("command") / "reader"
    made = c_reader.compiled(program, c_reader.SOURCE, "-O2")
    assert made.returncode == 0, made.stderr

    def run(*words):
        done = subprocess.run(
            [program, *map(str, words)], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode == 0) == (done.stderr == "")
        return done.stdout or done.stderr

    return run


# ------------------------------------------------------------------------------------ the source


def test_it_is_short_and_needs_nothing():
    text = c_reader.SOURCE.read_text("utf-8")
    assert len(text.splitlines()) <= 500
    assert max(map(len, text.splitlines())) <= 100
    included = {"errno", "inttypes", "limits", "math", "stdarg", "stdio", "stdlib", "string"}
    assert set(re.findall(r"#include (.*)", text)) == {f"<{name}.h>" for name in included}
    assert not re.search(r"\boff_t|fseeko|ftell|[fl]seek64|_POSIX|_GNU|_FILE_OFFSET", text)


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-O0"], ["-O3"], ["-O1", "-fanalyzer"], AS_LIBRARY])
def test_it_compiles_without_a_warning(tmp_path, options):
    if "-fanalyzer" in options and "Free Software" not in version():
        pytest.skip("the compiler is not GCC")
    made = c_reader.compiled(tmp_path / "reader", c_reader.SOURCE, *options)
    assert (made.returncode, made.stderr) == (0, "")


def version():
    found = subprocess.run([c_reader.compiler(), "--version"], capture_output=True, text=True)
    return found.stdout


# ----------------------------------------------------------------------- types that NumPy has, too


def values(shape, dtype, rng):
    """Make random bytes that are elements of a type."""
    if dtype.kind == "U":
        letters = rng.integers(0, 0x3000, (*shape, dtype.itemsize // 4), "u4")
        return letters.view(dtype.newbyteorder("="))[..., 0].astype(dtype)
    raw = rng.integers(0, 2 if dtype.kind == "b" else 256, (*shape, dtype.itemsize), "u1")
    return raw.view(dtype)[..., 0]


def same_bytes(found, expected):
    """Assert equality, including NaNs and the zeros behind a string."""
    native = expected.astype(expected.dtype.newbyteorder("="))
    if expected.dtype.kind == "V":
        native = expected
    return (found.shape, found.dtype, found.tobytes()) == (
        native.shape, native.dtype, native.tobytes()
    )  # fmt: skip


def change(draw, a, model, rng):
    """Grow an array at either side, cut it, or give it an axis; return the new model."""
    kind = draw(st.sampled_from(["extend", "append", "append", "cut", "axis"]))
    if kind == "axis" and model.ndim < 5:
        at = draw(st.integers(0, model.ndim))
        a.add_axis(at)
        return np.expand_dims(model, at)
    if not model.ndim:
        return model
    axis, by = draw(st.integers(0, model.ndim - 1)), draw(st.integers(0, 5))
    side = draw(st.sampled_from(["end", "start"]))
    if kind == "cut":
        n = model.shape[axis]
        by = min(by, n)
        a.shrink(axis, by, side)
        return np.take(model, range(by, n) if side == "start" else range(n - by), axis)
    shape = (*model.shape[:axis], by, *model.shape[axis + 1 :])
    if kind == "append":
        block = values(shape, model.dtype, rng)
        a.append(block, axis, side)
    else:
        block = np.full(shape, a.fill_value, model.dtype)
        a.extend(axis, by, side)
    pair = [model, block] if side == "end" else [block, model]
    return np.concatenate(pair, axis).astype(model.dtype)  # perhaps in another byte order


@pytest.mark.slow
@given(data=st.data())
@settings(QUICK, max_examples=400)
def test_random_arrays(reader, folder, data):
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    k = draw(st.integers(0, 4))
    shape = draw(st.tuples(*[st.integers(0, 5)] * k))
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    path = folder / "random"
    attrs = {"n": draw(st.integers(-9, 9)), "ä": "größe"}
    with xa.create(
        path, shape, dtype, chunks=draw(st.tuples(*[st.integers(1, 4)] * k)), overwrite=True,
        order=draw(st.sampled_from("CF")), sparse=draw(st.booleans()), attrs=attrs,
        checksum=draw(st.booleans()), growth=draw(st.sampled_from(["exact", "doubling"])),
    ) as a:  # fmt: skip
        a[...] = model = values(shape, dtype, rng)
        for _ in range(draw(st.integers(0, 7))):
            model = change(draw, a, model, rng)
            if draw(st.booleans()):
                attrs["grown"] = a.attrs["grown"] = "x" * draw(st.integers(0, 2000))
        if draw(st.booleans()):
            xa.pack(a, folder / "random.xap", overwrite=True)
            path = folder / "random.xap" / draw(st.sampled_from(["", "random"]))
    with xa.open(path) as a:
        assert np.array_equal(np.asarray(a[...]).view(f"V{dtype.itemsize}"),
                              model.view(f"V{dtype.itemsize}"))  # fmt: skip
    boxes = [()]
    for _ in range(2):
        edges = [sorted(draw(st.tuples(*[st.integers(0, n)] * 2))) for n in model.shape]
        boxes.append(edges)
    for box in boxes:
        found = reader.read(path, box)
        assert not isinstance(found, str), found
        expected = model[tuple(slice(*edges) for edges in box)] if box else model
        assert same_bytes(found[0], expected)
        assert json.loads(found[1]) == attrs


def test_histories(reader, tmp_path):
    path = tmp_path / "a"
    model = np.zeros((1, 1, 2), ">i4")
    with xa.create(path, model.shape, ">i4", chunks=(1, 2, 1), order="F") as a:
        for s in range(40):  # segments in three extents
            axis, side = s % 3, ["end", "start"][s // 3 % 2]
            shape = (*model.shape[:axis], 1, *model.shape[axis + 1 :])
            block = np.arange(s, s + prod(shape), dtype=">i4").reshape(shape)
            a.append(block, axis, side)
            pair = [model, block][:: -1 if side == "start" else 1]
            model = np.concatenate(pair, axis).astype(">i4")
        a.shrink(0, 3)
        a.shrink(2, 2, "start")
        model = model[:-3, :, 2:]
        xa.pack(a, tmp_path / "a.xap")
    assert len(format_reader.opened(path)[1].records) > 8 + 16
    for each in (path, tmp_path / "a.xmd", tmp_path / "a.xap", tmp_path / "a.xap" / "a"):
        assert same_bytes(reader.read(each)[0], model)
    assert same_bytes(reader.read(path, [(1, 9), (3, 4), (0, 11)])[0], model[1:9, 3:4, :11])
    assert reader.read(path, [(0, 1), (0, 1), (5, 99)]) == "5:99 is not in axis 2"
    assert reader.read(path, [(0, 1), (-1, 1), (5, 6)]) == "-1:1 is not in axis 1"


def test_a_pair_whose_chunks_have_their_other_name(reader, tmp_path):
    xa.from_array([1, 2], tmp_path / "a").close()
    uuid = (tmp_path / "a.xmd").read_bytes()[16:22].hex()
    os.rename(tmp_path / "a.xta", tmp_path / f"a.xta.{uuid}.new")
    assert reader.read(tmp_path / "a")[0].tolist() == [1, 2]


@pytest.mark.slow
def test_more_than_4_gib(command, scratch):
    n = 5 << 30
    with xa.create(scratch / "a", (n,), "u1", chunks=1 << 20, sparse=True) as a:
        a[7], a[-2:] = 1, 9
        xa.pack(a, scratch / "a.xap")
    for path in ("a", "a.xap"):
        assert command(scratch / path, f"{n - 3}:{n}") == "# |u1 3\n0 9 9\n"
        assert command(scratch / path, "6:8") == "# |u1 2\n0 1\n"


# ----------------------------------------------------------------- arrays that the reader refuses


def test_it_says_what_it_does_not_read(reader, tmp_path):
    def refusal(name, *, dtype="<i4", **options):
        with xa.create(tmp_path / name, (5, 3), dtype, chunks=(2, 2), **options) as a:
            a.extend(0, 1)
        return reader.read(tmp_path / name)

    assert refusal("z", order="Z") == "the order Z is not read"
    assert refusal("h", order="H") == "the order H is not read"
    told = "no records, long doubles or types of ml_dtypes are read: "
    assert refusal("r", dtype=[("a", "i4")]).startswith(f'{told}{{"fields":')
    assert refusal("g", dtype="g").startswith(f'{told}{{"longdouble":')
    pytest.importorskip("ml_dtypes")
    assert refusal("b", dtype="bfloat16").startswith(f'{told}{{"extension":')


def test_files_that_are_not_closed_or_of_other_versions(reader, tmp_path):
    with xa.create(tmp_path / "a", (5, 3), "<i4", chunks=(2, 2)):
        told = "it is not closed: a writer is at work, or has died"
        assert reader.read(tmp_path / "a") == told
    assert reader.read(tmp_path / "a")[0].shape == (5, 3)
    xmd = (tmp_path / "a.xmd").read_bytes()
    for major in (0, 1, 3, 770):
        (tmp_path / "a.xmd").write_bytes(xmd[:8] + struct.pack("<H", major) + xmd[10:])
        assert reader.read(tmp_path / "a") == f"major version {major} of the format is not read"
    minor = bytearray(xmd)
    minor[10] = 9
    end = 48 + 16 + 5 + 4
    minor[end : end + 4] = struct.pack("<I", format_reader.crc32c(minor[:end]))
    (tmp_path / "a.xmd").write_bytes(minor)
    assert reader.read(tmp_path / "a")[0].shape == (5, 3)
    (tmp_path / "a.xmd").write_bytes(xmd)
    xta = (tmp_path / "a.xta").read_bytes()
    for wrong in (xta[:-1], xta + b"\0", xta[:-1] + b"\0", b""):
        (tmp_path / "a.xta").write_bytes(wrong)
        assert "is not the partner of the .xmd" in reader.read(tmp_path / "a")
    assert "cannot open" in reader.read(tmp_path / "b")
    assert "cannot open" in reader.read(tmp_path)
    (tmp_path / "a.xmd").write_bytes(b"no array at all")
    assert reader.read(tmp_path / "a") == "no array: the .xmd does not begin as one"


def test_packed_files_that_are_damaged_or_hold_several(reader, tmp_path):
    with xa.open_group(tmp_path / "g", "w") as g:
        g["a"], g["b/a"] = [1, 2], [3]
        xa.pack(g, tmp_path / "g.xap")
        xa.pack(g["b/a"], tmp_path / "a.xap")
    assert "a packed group" in reader.read(tmp_path / "g.xap")
    assert reader.read(tmp_path / "g.xap" / "b" / "a")[0].tolist() == [3]
    assert reader.read(tmp_path / "g.xap" / "b") == "there is no array 'b' in it"
    image = bytearray((tmp_path / "a.xap").read_bytes())
    image[image.index(b"\x89XTA\r\n") + 5000] ^= 1
    (tmp_path / "a.xap").write_bytes(image)
    assert reader.read(tmp_path / "a.xap") == "the .xmd in the packed file is damaged"


# ------------------------------------------------------------------------------------ hostile files


def seen_by_the_package(path):
    """Return what the package reads of an array, or its error; nothing is recovered."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", xa.RecoveryWarning)
        try:
            with xa.open(path, engine="pread") as a:
                state = a._store.now.state
                plain = a.dtype.names is None and a.order in "CF" and a.dtype.isbuiltin != 2
                plain = plain and a.dtype.char not in "gG" and bool(state.sealed)
                if a.nbytes > 1 << 22:
                    return None, plain
                return np.asarray(a[...]), plain
        except (xa.ExtArrayError, xa.RecoveryWarning) as error:
            return error, False


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    seeds = fuzz_pairs.seeds(tmp_path_factory.mktemp("seeds"))
    return lambda data: fuzz_pairs.changed(seeds, Dice(data))


@pytest.mark.slow
@given(data=st.binary(min_size=20, max_size=100))
@settings(QUICK, max_examples=300)
def test_pairs_that_are_changed_with_checksums_that_fit(reader, folder, changed, data):
    path = folder / "changed"
    changed(data).store(path)
    expected, plain = seen_by_the_package(path)
    found = reader.read(path)
    if isinstance(expected, np.ndarray) and plain:
        assert not isinstance(found, str), found
        assert same_bytes(found[0], expected)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Closed pairs that the reader reads: the bytes of both files, and the elements."""
    found, where = [], tmp_path_factory.mktemp("originals")
    for n, order in enumerate("CF"):
        with xa.create(where / order, (3, 4), "<u2", chunks=(2, 2), order=order) as a:
            a.append(np.full((2, 4), 7, "u2"), 0, "start")
            a.append(np.full((5, n + 1), 8, "u2"), 1)
            a[1:4] = np.arange(a[1:4].size).reshape(a[1:4].shape)
            a.attrs["n"] = "of them"
            model = a[...]
        files = [(where / f"{order}{suffix}").read_bytes() for suffix in (".xmd", ".xta")]
        found.append((*files, model))
    return lambda: found


@pytest.mark.slow
@given(data=st.binary(min_size=12, max_size=40))
@settings(QUICK, max_examples=400)
def test_any_change_of_the_bytes_of_a_pair(reader, folder, originals, data):
    """The reader agrees with the package or refuses; of a whole pair, it reads the elements."""
    dice = Dice(data)
    xmd, xta, model = dice.pick(originals())
    files = bytearray(xmd), bytearray(xta)
    for _ in range(1 + dice.below(4)):
        file = files[dice.below(6) == 5]
        at = dice.below(len(file)) if file else 0
        if dice.below(8) == 7:
            del file[at:]
        elif file:
            n = 1 + dice.below(4)
            file[at : at + n] = dice.take(n)
    path = folder / "broken"
    for suffix, content in zip((".xmd", ".xta"), files, strict=True):
        Path(f"{path}{suffix}").write_bytes(content)
    found = reader.read(path)
    expected, plain = seen_by_the_package(path)
    if isinstance(found, str):
        assert not plain or isinstance(expected, Exception)
    else:
        assert same_bytes(found[0], expected)
        assert found[0].shape == model.shape


@pytest.mark.slow
@given(data=st.binary(min_size=30, max_size=60))
@settings(QUICK, max_examples=300)
def test_packed_files_that_are_changed(reader, packed_images, tmp_path_factory, data):
    dice = Dice(data)
    path = tmp_path_factory.getbasetemp() / "c.xap"
    path.write_bytes(fuzz_packed.changed(dice.pick(packed_images()), dice))
    for name in ("", "a", "n/b", "a/n/b"):
        found = reader.read(path / name)
        expected, _ = seen_by_the_package(path / name)
        if isinstance(expected, np.ndarray):
            assert not isinstance(found, str), found
            assert same_bytes(found[0], expected)


@pytest.fixture(scope="module")
def packed_images(tmp_path_factory):
    found = fuzz_packed.images(tmp_path_factory.mktemp("images"))
    return lambda: found


# ------------------------------------------------------------------------------------ the command


def test_the_command_prints_a_box(command, tmp_path):
    model = np.arange(24.0).reshape(2, 3, 4) / 7
    with xa.from_array(model, tmp_path / "a", chunks=(2, 2, 3)) as a:
        a.append(model, 0, "start")
    model = np.concatenate([model, model])
    for box, expected in {
        None: model, ":,:,:": model, "1:3,2,:": model[1:3, 2:3], "0,0:2,1:": model[:1, :2, 1:],
        ":,:2,3": model[:, :2, 3:], "2": model[2:3], "": model, "1:1,:,:": model[1:1],
    }.items():  # fmt: skip
        text = command(tmp_path / "a", *[] if box is None else [box])
        head, _, body = text.partition("\n")
        assert head == f"# <f8 {' '.join(map(str, expected.shape))}"
        assert np.array_equal(np.array(body.split(), "f8"), expected.ravel())
        assert [len(line.split()) for line in body.splitlines() if line] == (
            [expected.shape[2]] * (expected.size // max(1, expected.shape[2]))
        )
    assert np.array_equal(np.loadtxt(command(tmp_path / "a", "3").splitlines()), model[3])
    for wrong in ("9", "0:9", "x", "0,0,0,0", "2:1", "-1", "0;1", "1:2:3"):
        assert command(tmp_path / "a", wrong).startswith("reader: ")
    assert command() == "reader: reader FILE [start:stop,...]\n"


@pytest.mark.parametrize(
    ("elements", "dtype", "text"),
    [
        ([True, False], "?", "1 0"),
        ([-(2**63), 2**63 - 1], ">i8", f"{-(2**63)} {2**63 - 1}"),
        ([2**64 - 1, 0], "<u8", f"{2**64 - 1} 0"),
        ([-1, -128], "i1", "-1 -128"),
        ([1.5, np.nan, -np.inf], "<f8", "1.5 nan -inf"),
        ([1.5 - 2j], ">c8", "1.5-2j"),
        (["a b", "\u20ac"], "<U3", "a\\U00000020b \\U000020ac"),
        ([b"a\x1b\\", b""], "S3", "a\\x1b\\x5c "),
        ([b"\x00\xff"], "V2", "\\x00\\xff"),
        (["2024-05-01", "NaT"], "M8[D]", f"19844 {-(2**63)}"),
    ],
)
def test_how_elements_are_printed(command, tmp_path, elements, dtype, text):
    xa.from_array(np.array(elements, dtype), tmp_path / "a").close()
    assert command(tmp_path / "a").partition("\n")[2] == f"{text}\n"


def test_all_numbers_of_two_bytes(command, tmp_path):
    model = np.arange(2**16, dtype="u2").view("f2")
    xa.from_array(model, tmp_path / "a").close()
    found = np.array(command(tmp_path / "a").split()[3:], "f8").astype("f2")
    assert np.array_equal(found, model, equal_nan=True)


def test_what_a_file_says_does_not_reach_a_terminal(command, tmp_path):
    xa.create(tmp_path / "a", 3, "u1").close()
    xmd = bytearray((tmp_path / "a.xmd").read_bytes())
    xmd[33] = 0x1B
    end = 48 + 8 + 5 + 1
    xmd[end : end + 4] = struct.pack("<I", format_reader.crc32c(xmd[:end]))
    (tmp_path / "a.xmd").write_bytes(xmd)
    assert command(tmp_path / "a") == "reader: the order ? is not read\n"


# -------------------------------------------------------------------------------- other languages


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The functions as other languages call them, with numbers and pointers."""
    target = tmp_path_factory.mktemp("library") / "reader.so"
    made = c_reader.compiled(
        target, c_reader.SOURCE, "-O2", "-shared", "-fPIC", "-DEXTARRAY_NO_MAIN"
    )
    assert made.returncode == 0, made.stderr
    found = ctypes.CDLL(os.fspath(target))
    for name in ("xa_error", "xa_type", "xa_attrs", "xa_attr"):
        getattr(found, name).restype = ctypes.c_char_p
    found.xa_open.restype = ctypes.c_void_p
    found.xa_extent.restype = found.xa_itemsize.restype = ctypes.c_int64
    return found


def test_functions(library, tmp_path):
    model = np.arange(6, dtype=">i4").reshape(2, 3)
    attrs = {"n": 1, "when": np.datetime64("2024"), "t": [(1,)], "ü": {"n": 2}, "s": '"$type": ,}'}
    xa.from_array(model, tmp_path / "a", attrs=attrs).close()
    a = ctypes.c_void_p(library.xa_open(os.fsencode(tmp_path / "a")))
    assert a.value
    assert (library.xa_ndim(a), library.xa_itemsize(a), library.xa_type(a)) == (2, 4, b">i4")
    assert [library.xa_extent(a, j) for j in (-1, 0, 1, 2)] == [-1, 2, 3, -1]
    assert b'"n":1' in library.xa_attrs(a)
    assert library.xa_attr(a, b"n") == b"1"
    assert library.xa_attr(a, "ü".encode()) == b'{"n":2}'
    assert library.xa_attr(a, b"s") == b'"\\"$type\\": ,}"'
    for name in (b"when", b"t"):
        assert library.xa_attr(a, name) is None
        assert b"has in it, a $type" in library.xa_error()
    assert library.xa_attr(a, b"m") is None
    assert library.xa_error() == b"there is no attribute 'm'"
    two = ctypes.c_int64 * 2
    out = np.zeros((1, 2), "i4")
    room = ctypes.c_int64(out.nbytes)
    where = out.ctypes.data_as(ctypes.c_void_p)
    assert library.xa_read(a, two(1, 1), two(2, 3), where, room) == 0
    assert out.tolist() == [[4, 5]]
    assert library.xa_read(a, two(0, 1), two(2, 3), where, room) == -1
    assert library.xa_error() == b"the box has 16 bytes"
    library.xa_close(a)
    library.xa_close(None)


def block_of_the_page(heading):
    """Return the program below a heading of the page."""
    page = (c_reader.SOURCE.parent / "c-reader.md").read_text("utf-8")
    return re.search(rf"### {heading}\n.*?```text\n(.*?)```", page, re.DOTALL)[1]


@pytest.fixture
def a_scene(tmp_path, library, monkeypatch):
    """The array of the page's programs, and the library, in the current folder."""
    monkeypatch.chdir(tmp_path)
    xa.from_array(np.arange(6.0).reshape(2, 3), "scene").close()
    shutil.copy(library._name, "reader.so")
    return tmp_path


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("gfortran") is None, reason="there is no gfortran")
def test_the_program_in_fortran(a_scene):
    (a_scene / "box.f90").write_text(block_of_the_page("Fortran"))
    output("gfortran", "-Wall", "-Werror", "-o", "box", "box.f90", "./reader.so")
    assert output("./box").split() == ["0.0", "1.0", "2.0", "3.0", "4.0", "5.0"]


@pytest.mark.skipif(shutil.which("julia") is None, reason="there is no Julia")
def test_the_program_in_julia(a_scene):
    (a_scene / "box.jl").write_text(block_of_the_page("Julia") + "print(vec(out))")
    assert output("julia", "box.jl") == "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]"


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="there is no R")
def test_the_program_in_r(a_scene):
    (a_scene / "box.R").write_text(f"cat({{{block_of_the_page('R')}}})")
    assert output("Rscript", "box.R").split() == ["0", "3", "1", "4", "2", "5"]


def test_the_program_in_c(a_scene):
    """The page's program, with other numbers."""
    page = (c_reader.SOURCE.parent / "c-reader.md").read_text("utf-8")
    block = re.search(r"```c\n(.*?)```", page, re.DOTALL)[1]
    for shown, here in {"{10, 20}": "{2, 3}", "[10][20]": "[2][3]"}.items():
        assert shown in block
        block = block.replace(shown, here)
    head = c_reader.SOURCE.read_text("utf-8").partition("typedef struct {")[0]
    program = f'{head}int main(void) {{{block}printf("%g", box[1][2]); return 0; }}'
    (a_scene / "box.c").write_text(program)
    made = c_reader.compiled(a_scene / "box", a_scene / "box.c", "./reader.so")
    assert (made.returncode, made.stderr) == (0, "")
    assert output("./box") == "5"


def test_the_function_for_r(library, tmp_path):
    model = np.arange(6.0).reshape(2, 3)
    xa.from_array(model, tmp_path / "a").close()

    def call(path, box, out):
        path = (ctypes.c_char_p * 1)(os.fsencode(path))
        ndim, status, shape = ctypes.c_int(), ctypes.c_int(), np.zeros(32)
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (shape, *np.array(box, "f8"), out)]
        size = ctypes.c_double(out.nbytes)
        library.xa_box(
            path, ctypes.byref(ndim), *pointers, ctypes.byref(size), ctypes.byref(status)
        )
        return status.value, shape[: ndim.value].tolist()

    out = np.zeros((1, 2))
    assert call(tmp_path / "a", [[0, 0], [0, 0]], np.zeros(0)) == (0, [2, 3])
    assert call(tmp_path / "a", [[1, 1], [2, 3]], out) == (0, [2, 3])
    assert out.tolist() == [[4, 5]]
    assert call(tmp_path / "a", [[1, 1], [2, 4]], out) == (-1, [2, 3])
    assert call(tmp_path / "b", [[1, 1], [2, 4]], out) == (-1, [])
