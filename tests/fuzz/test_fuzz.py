"""Files and arguments of all kinds, from Hypothesis; `tests/support/fuzz.py` goes further."""

from __future__ import annotations

import fuzz
import fuzz_calls
import fuzz_pairs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from systems import IS_POSIX

# Calls limit the file sizes of the whole process, and share the module's arrays.
pytestmark = pytest.mark.thread_unsafe(reason="the fuzzers have limits and arrays of their own")

# Bytes to read as choices: the fewer, the fewer changes they make.
BYTES = st.binary(min_size=16, max_size=80)
MANY = settings(max_examples=6 * settings().max_examples)


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    pairs = fuzz_pairs.seeds(folder)
    return lambda data: fuzz_pairs.attack(pairs, data, folder)


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    if not IS_POSIX:
        pytest.skip("Windows has no limit of the size of files")
    folder = tmp_path_factory.mktemp("calls")
    twins = fuzz_calls.twins(folder)
    yield lambda data: fuzz_calls.call(twins, data, folder)
    for array, _ in twins:
        array.close()


def found(text):
    """Return an example from bytes that revealed a fault."""
    return example(data=bytes.fromhex(text))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["pairs", "calls"])
def test_corpus(name, request):
    """Inputs that reached new code when the fuzzer ran."""
    act = request.getfixturevalue({"pairs": "attack", "calls": "call"}[name])
    corpus = fuzz.read_corpus(name)
    assert len(corpus) > 50
    for data in corpus:
        act(data)


@pytest.mark.slow
@given(data=BYTES)
@found("3ea52299bdaca4789879616fa40ce33f35589b07de4e15be8fb679795a823e0c279a99d650623c4c")
@found("9e8a7f0ea27669b5b607974d9b924f271f21e5ed7a5be97d")
@found("9d09aa2ae85a18e9cf5d32418d3e09a3a5a4c3511563edb7fb3f148753c4")
@found("27d578be6a8710ddf987d6289c0315558b003baab70e38b7")
@found("656a894e956682ffff226ec16a3017c612f54e15b55d0100000045048ebaf773db5392f7d22f33e5")
@found("656a010095668227ff0aeb7dc1ececececececececececececececec8422c26ec16a8117c612452449")
@found("656a894e95663f8244ff0aeb01000000ffffffffb3b3b3ffffffd8758d4a2eb4")
@found("ffec53ffff1797ff53ffff1797fffffffffffffffffffffe03f1ba3263ffffff03f1ba3363")
@MANY
def test_files(attack, data):
    """A pair is refused by an error of the family, or works like any other array."""
    attack(data)


@given(data=BYTES)
@MANY
def test_calls(call, data):
    """A call gives NumPy's result, or both refuse it."""
    call(data)
