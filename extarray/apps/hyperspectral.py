"""Analyse hyperspectral scenes, in bounded memory, by one process or several, as they grow.

Components and statistics (`pct`, `mnf`), the number of endmembers (`hfc`, `hysime`), endmembers
(`atgp`, `ppi`, `vca`, `nfindr`, `amee`), abundances, spectral angles and classes (`abundances`,
`sam`, `classify`), and their accuracy (`match`, `accuracy`).

Every function takes an ExtArray or an array of three axes, works block by block, and returns the
same bits on any number of ranks or threads.  One process shares the blocks among
``extarray.config.threads`` threads; a rank has one thread, and BLAS none of its own.
"""

from extarray.apps.hyperspectral_classes import (
    Accuracy,
    Matching,
    accuracy,
    classify,
    match,
    sam,
)
from extarray.apps.hyperspectral_components import Components, hfc, hysime, mnf, pct
from extarray.apps.hyperspectral_endmembers import (
    Endmembers,
    Simplex,
    atgp,
    nfindr,
    vca,
)
from extarray.apps.hyperspectral_growing import Growing
from extarray.apps.hyperspectral_purity import Eccentric, PurePixels, amee, ppi
from extarray.apps.hyperspectral_unmixing import abundances

__all__ = [
    "Accuracy",
    "Components",
    "Eccentric",
    "Endmembers",
    "Growing",
    "Matching",
    "PurePixels",
    "Simplex",
    "abundances",
    "accuracy",
    "amee",
    "atgp",
    "classify",
    "hfc",
    "hysime",
    "match",
    "mnf",
    "nfindr",
    "pct",
    "ppi",
    "sam",
    "vca",
]
