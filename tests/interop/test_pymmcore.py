"""The handler of events that the how-to gives pymmcore-plus, with devices in Python."""

from __future__ import annotations

import numpy as np
import pytest
from pages import ROOT, blocks

import extarray as xa

useq = pytest.importorskip("useq", reason="needs useq-schema")
unicore = pytest.importorskip(
    "pymmcore_plus.experimental.unicore", reason="needs pymmcore-plus", exc_type=ImportError
)
bridge = pytest.importorskip("extarray.interop.useq")

PAGE = ROOT / "docs" / "how-to" / "microscope.md"

pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="the documentation is not part of this tree"
)


class Camera(unicore.SimpleCameraDevice):
    """A camera whose frames have their number in each pixel."""

    count, exposure = 0, 0.01

    def sensor_shape(self):
        return 64, 96

    def dtype(self):
        return np.uint16

    def get_exposure(self):
        return self.exposure

    def set_exposure(self, exposure):
        self.exposure = exposure

    def snap(self, buffer):
        self.count += 1
        buffer[...] = self.count
        return {}


class Stage(unicore.StageDevice):
    z = 0.0

    def get_position_um(self):
        return self.z

    def set_position_um(self, val):
        self.z = val

    def home(self):
        self.z = 0.0

    def stop(self):
        pass

    def set_origin(self):
        pass


class Filters(unicore.StateDevice):
    state = 0

    def __init__(self):
        super().__init__({0: "DAPI", 1: "GFP"})

    def get_state(self):
        return self.state

    def set_state(self, position):
        self.state = position


@pytest.fixture
def core():
    """Yield an engine with a camera, a stage and filters."""
    core = unicore.UniMMCore()
    for name, device in [("Camera", Camera()), ("Stage", Stage()), ("Filters", Filters())]:
        core.loadPyDevice(name, device)
        core.initializeDevice(name)
    core.setCameraDevice("Camera")
    core.setFocusDevice("Stage")
    core.setAutoShutter(False)
    for channel in ("DAPI", "GFP"):
        core.defineConfig("Channel", channel, "Filters", "Label", channel)
    core.setChannelGroup("Channel")
    yield core
    core.unloadAllDevices()


def test_the_handler_keeps_all_axes_of_an_uneven_sequence(core, path):
    found = blocks(PAGE.read_text(encoding="utf-8"))
    code = next(block.text for block in found if "class Recorder" in block.text)
    namespace = {"record": bridge.record}
    exec(code, namespace)
    sequence = useq.MDASequence(
        axis_order="tcz",
        time_plan={"interval": 0.1, "loops": 3},
        channels=["DAPI", {"config": "GFP", "acquire_every": 2}],
        z_plan={"range": 2, "step": 1},
    )
    core.mda.run(sequence, output=namespace["Recorder"](path))
    with xa.open_group(path) as group:
        frames = group["frames"].lazy.split()
        assert frames.dims == ("t", "c", "z", "y", "x")
        assert frames[:, :, 0, 0, 0].tolist() == [[1, 4], [7, 0], [10, 13]]
        assert group["time"].lazy.split().shape == (3, 2, 3)
