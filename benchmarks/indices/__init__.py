"""Index structures from the literature for the mapping, beside the tables of the package.

Each is written in C, which this folder builds itself, behind one interface: `structures.Structure`.
``python -m benchmarks.indices`` measures them.
"""
