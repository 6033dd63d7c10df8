"""napari's reader: layers of arrays, which follow their growth."""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import os
import warnings
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import numpy as np
import pytest

import extarray as xa

# The packages that napari imports use parts of pydantic that will go.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    components = pytest.importorskip("napari.components", reason="needs napari")
    npe2 = pytest.importorskip("npe2")
    bridge = pytest.importorskip("extarray.interop.napari")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

MANIFEST = Path(bridge.__file__).with_name("napari.yaml")
SPLIT = {"frame": {"t": -1, "c": 2, "z": 3}}
COORDS = {
    "c": ["DAPI", "GFP"],
    "t": {"dims": ["t"], "data": 10 + 2.5 * np.arange(9), "attrs": {"units": "s"}},
    "z": {"dims": ["z"], "data": [-0.5, 0, 0.5], "attrs": {"units": "µm"}},
    "x": {"dims": ["x"], "data": [0, 1, 3, 4, 5, 9], "attrs": {"units": "µm"}},
    "y": {"dims": ["y"], "data": np.arange(4), "attrs": {"units": "no such unit"}},
}


def frames(first, last):
    values = np.arange(first, last, dtype="u2")[:, None, None]
    return np.broadcast_to(values, (last - first, 4, 6))


@pytest.fixture
def viewer():
    return components.ViewerModel()


@pytest.fixture
def recording(path):
    with xa.create(
        path, (0, 4, 6), "u2", dims=("frame", "y", "x"), split=SPLIT, attrs={"coords": COORDS}
    ) as array:
        yield array


def add(viewer, path):
    for data, options, kind in bridge.layers(path):
        getattr(viewer, f"add_{kind}")(data, **options)


def shown(layer):
    """Return the elements on show, all of which are the same."""
    (value,) = np.unique(layer._slice.image.raw)
    return value


def test_the_manifest_is_found_and_valid():
    manifest = npe2.PluginManifest.from_file(MANIFEST)
    manifest.validate_imports()
    entries = importlib.metadata.entry_points(group="napari.manifest")
    (entry,) = [entry for entry in entries if entry.value == "extarray.interop:napari.yaml"]
    assert manifest.name == entry.name == entry.dist.name == "extarray"


@pytest.mark.slow
def test_napari_opens_what_is_ours_and_nothing_else(path, recording, viewer):
    recording.append(frames(0, 6))
    (path.parent / "other").mkdir()
    (path.parent / "other" / "a.txt").touch()
    assert bridge.reader(str(path.parent / "other")) is None
    assert bridge.reader([f"{path}.xmd", f"{path}.xta"]) is None
    assert bridge.reader("a.tif") is None
    manager = npe2.PluginManager()
    manager.register(npe2.PluginManifest.from_file(MANIFEST))
    manager.activate("extarray")
    for name in (f"{path}.xmd", f"{path}.xta", str(path.parent)):
        found = npe2.io_utils._read([name], stack=False, plugin_name="extarray", _pm=manager)
        assert [about["name"] for _, about, _ in found] == ["scene: DAPI", "scene: GFP"]
    assert [kind for *_, kind in bridge.layers(path)] == ["image", "image"]


def test_layers_are_channels_with_names_sizes_and_units(path, recording, viewer):
    recording.append(frames(0, 12))
    add(viewer, path)
    assert [layer.name for layer in viewer.layers] == ["scene: DAPI", "scene: GFP"]
    assert [layer.colormap.name for layer in viewer.layers] == ["magenta", "green"]
    assert [layer.blending for layer in viewer.layers] == ["translucent_no_depth", "additive"]
    layer = viewer.layers[1]
    assert layer.data.shape == (2, 3, 4, 6)
    assert layer.scale.tolist() == [2.5, 0.5, 1, 1]
    assert layer.translate.tolist() == [10, -0.5, 0, 0]
    assert [*map(str, layer.units)] == ["second", "micrometer", "pixel", "pixel"]
    assert layer.axis_labels == ("t", "z", "y", "x")
    viewer.dims.set_current_step((0, 1), (1, 2))
    assert [shown(layer) for layer in viewer.layers] == [8, 11]


def test_layers_follow_growth(path, recording, viewer):
    add(viewer, path)
    assert [shown(layer) for layer in viewer.layers] == [0, 0]
    assert not bridge.update(viewer)
    viewer.dims.set_current_step(1, 1)
    recording.append(frames(0, 1))
    assert bridge.update(viewer)
    assert viewer.layers[0].contrast_limits == [0, 1]
    recording.append(np.arange(24, dtype="u2").reshape(1, 4, 6))
    assert bridge.update(viewer)
    assert viewer.layers[0].contrast_limits == [0, 23]
    recording.append(frames(2, 8))
    assert bridge.update(viewer)
    # The slider of time was at its end, and goes on; the others stay.
    assert viewer.dims.nsteps[:2] == (2, 3)
    assert viewer.dims.current_step[:2] == (1, 1)
    assert shown(viewer.layers[0]) == 7
    viewer.dims.set_current_step(0, 0)
    recording.append(frames(8, 13))
    assert bridge.update(viewer)
    assert viewer.dims.nsteps[:2] == (3, 3)
    assert viewer.dims.current_step[:2] == (0, 1)
    assert viewer.layers[0].contrast_limits == [0, 23]
    assert not bridge.update(viewer)


def test_a_duplicate_and_other_layers(path, recording, viewer):
    recording.append(frames(0, 6))
    add(viewer, path)
    viewer.add_image(np.zeros((4, 6)))
    metadata = copy.deepcopy(viewer.layers[0].metadata)
    viewer.add_image(viewer.layers[0].data, metadata=metadata)
    recording.append(frames(6, 12))
    assert bridge.update(viewer)
    assert [layer.data.shape[0] for layer in viewer.layers] == [2, 2, 4, 2]


def test_files_that_are_replaced_or_gone(path, viewer):
    xa.from_array(np.zeros((2, 4, 6), "u1"), path, dims=[*"tyx"]).close()
    add(viewer, path)
    xa.from_array(np.ones((3, 4, 6), "u1"), path, dims=[*"tyx"], overwrite=True).close()
    assert bridge.update(viewer)
    assert viewer.layers[0].data.shape == (3, 4, 6)
    # An array of other axes has no place in the layer.
    xa.from_array(np.ones((4, 6), "u1"), path, overwrite=True).close()
    bridge.update(viewer)
    for suffix in (".xmd", ".xta"):
        Path(f"{path}{suffix}").unlink()
    assert not bridge.update(viewer)
    assert viewer.layers[0].data.shape == (3, 4, 6)


def test_a_folder_is_all_its_images(path, viewer):
    with xa.open_group(path, "w") as group:
        group.create("frames", (2, 4, 6), "u1", dims=[*"tyx"])
        group.create("times", (2,), "f8", dims=["t"])
        group.create("day/rgb", (2, 4, 6, 3), "u1", dims=[*"tyxs"])
        group.create("day/mask", (4, 6), "?")
        group.create("day/dates", (4, 6), "M8[s]")
        group.create("flow", (4, 6), "c8")
        xa.pack(group, f"{path}.xap")
    for place in (path, f"{path}.xap"):
        viewer.layers.clear()
        add(viewer, place)
        base = Path(place).name
        found = {layer.name: (layer.data.shape, layer.rgb) for layer in viewer.layers}
        assert found == {
            base: ((2, 4, 6), False),
            "day/rgb": ((2, 4, 6, 3), True),
            "day/mask": ((4, 6), False),
        }
        assert bridge.reader(str(place)) is not None


def test_channels_without_end_or_too_many_are_a_slider(path, viewer):
    for n, split in ((40, {"frame": {"t": -1, "c": 20}}), (4, {"frame": {"c": -1, "z": 2}})):
        with xa.create(
            path, (n, 4, 6), "u2", dims=("frame", "y", "x"), split=split, overwrite=True
        ):
            ((data, options, _),) = bridge.layers(path)
            assert data.shape == (2, n // 2, 4, 6)
            assert options["name"] == "scene"


def test_what_napari_cannot_show_is_refused(path):
    xa.create(path, (4,), "f8").close()
    with pytest.raises(xa.ArgumentError, match="two axes or more"):
        bridge.layers(path)
    with pytest.raises(xa.MissingError):
        bridge.layers(path.with_name("missing"))


@pytest.mark.slow
def test_a_window_follows_by_itself(path, recording, viewer, monkeypatch):
    monkeypatch.setenv("QT_QPA_PLATFORM", os.environ.get("QT_QPA_PLATFORM", "offscreen"))
    try:
        widgets = importlib.import_module("qtpy.QtWidgets")
    except ImportError as error:
        pytest.skip(f"needs a binding of Qt: {error}")
    app = widgets.QApplication.instance() or widgets.QApplication([])
    window = widgets.QMainWindow()
    add(viewer, path)
    whole = SimpleNamespace(
        window=SimpleNamespace(_qt_window=window), layers=viewer.layers, dims=viewer.dims
    )
    timer = bridge.follow(whole, 5)
    assert bridge.follow(whole, 5) is timer
    recording.append(frames(0, 18))
    end = monotonic() + 250
    while viewer.layers[0].data.shape[0] < 3 and monotonic() < end:
        app.processEvents()
    assert viewer.layers[0].data.shape == (3, 3, 4, 6)
    timer.stop()
    window.deleteLater()
    app.processEvents()
