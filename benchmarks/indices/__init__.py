"""Index structures of the literature for the mapping, beside the tables of the package.

Each is C that this folder builds for itself, behind one interface: `structures.Structure`.
``python -m benchmarks.indices`` measures them.
"""
