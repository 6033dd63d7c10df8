"""Figures that ``pyplot`` keeps do not outlive a test."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_figures_stay():
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
