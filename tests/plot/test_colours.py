"""Colours that tell things apart do so for colour-blind readers, too."""

from __future__ import annotations

import numpy as np
import pytest
from colour_vision import VISIONS, least_distance

import extarray as xa
from extarray.apps.scene_pictures import _COLOURS as OF_MATERIALS
from extarray.grid.growth_map import segment_colours, segments

matplotlib = pytest.importorskip("matplotlib")

#: In CIELAB; colours of patches side by side are told apart from about 5 on.
FAR = 10


def of_axes():
    """Return the colours of growth along each of six axes."""
    a = xa.create(None, (1,) * 6, "u1", chunks=1)
    for axis in (1, 2, 3, 4, 5, 0):
        a.extend(axis, 1)
    return list(segment_colours(segments(a))[1:])


def of_ranks():
    """Return the colours of six ranks."""
    (ax,) = xa.create(None, (1, 6), chunks=1).plot.zones(6).axes
    return list(np.asarray(ax.images[0].get_array())[0])


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_far_from_each_other(vision):
    materials = [matplotlib.colors.to_rgb(colour) for colour in OF_MATERIALS]
    for colours in (of_axes(), of_ranks(), materials):
        assert len(colours) >= 5
        assert least_distance(colours, vision) > FAR


def test_the_simulation_finds_what_cannot_be_told_apart():
    red_and_green = [(0.6, 0.4, 0.0), (0.4, 0.5, 0.0)]
    assert least_distance(red_and_green) > 2 * FAR
    assert least_distance(red_and_green, "protanopia") < least_distance(red_and_green) / 2
    assert least_distance([(0.3, 0.3, 0.3), (0.6, 0.6, 0.6)], "tritanopia") > FAR
