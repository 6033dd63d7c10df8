"""The claims of the papers that are judged, by number."""

from __future__ import annotations

CLAIMS = {
    1: "Random access to an array that does not grow costs more than to a conventional one, "
    "and more with more axes.",
    2: "Growth makes extendible arrays far cheaper in memory.",
    3: "On disk they are orders of magnitude cheaper than HDF5.",
    4: "Growth by chunks is cheaper than growth element by element.",
    5: "The time of an access does not suffer from growth.",
    6: "The O2-tree makes the mapping fast.",
    7: "Time and storage of the mapping are those of Table 4.1.",
    8: "80 to 90 % of the allocated storage is used.",
    9: "The order of access hardly matters to chunked arrays, and much to conventional ones.",
    10: "Inside chunks row-major order serves random access better than the Hilbert curve; the "
    "curve serves neighbourhoods.",
    11: "Formula 5.2.2 predicts how many chunks a query touches, and so the best chunk shape.",
    12: "Cubical growth saves time.",
    13: "Aligned DRA is fastest, PEXTA a little behind.",
    14: "With many processes writes are faster than reads.",
    15: "After a growth, writing back is far cheaper than with DRA and parallel HDF5.",
    16: "Matrix product, Lennard-Jones and Lattice-Boltzmann on growing arrays run faster.",
    17: "A program from outside that grows the array disturbs no reader.",
    18: "The cost of a conversion does not depend on the pattern, and it takes one pass.",
    19: "One read repays a conversion from blocks of about 256 x 512 on.",
    20: "Mapping HDF5 and netCDF in and out is cheap enough to grow their arrays.",
    21: "PEXTA beats parallel HDF5 by 1.1 to 2.8 times in hyperspectral analysis.",
    22: "AMEE finds endmembers best, then PPI, then N-FINDR.",
    23: "The analyses speed up nearly linearly to 180 processes.",
    24: "Results follow arriving swaths nearly in real time (never measured).",
    25: "No out-of-core transposition is needed: zones are read in either order.",
    26: "Multidimensional analysis of growing tables profits (never measured).",
}
