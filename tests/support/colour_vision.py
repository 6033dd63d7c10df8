"""How people with a deficiency of colour vision see colours, and how far apart colours look.

The matrices are those of Machado, Oliveira and Fernandes (2009, doi:10.1109/TVCG.2009.113) for a
missing kind of cones; they act on linear red, green and blue.
"""

from __future__ import annotations

import itertools

import numpy as np

__all__ = ["VISIONS", "least_distance"]

VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}

#: From linear sRGB to CIE XYZ, and the white of daylight.
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def _linear(colour):
    """Return a colour of sRGB, in 0...1, as linear light."""
    colour = np.asarray(colour, np.float64)
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def _lab(light):
    """Return linear light in CIELAB."""
    white = _XYZ @ np.ones(3)
    t = _XYZ @ np.clip(light, 0, 1) / white
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def least_distance(colours, vision="normal"):
    """Return how far apart the two nearest of some colours look, in CIELAB; 2 is just visible."""
    seen = [_lab(VISIONS[vision] @ _linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))
