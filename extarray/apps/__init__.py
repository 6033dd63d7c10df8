"""Applications: what scientists do with arrays that grow, in a few short modules each.

They use the public face alone, and other packages through the extra ``[apps]``.

Its modules, from the top down; each uses some of those below it:

``matrix_product``
    Products of matrices larger than memory, whose factors grow.
``lennard_jones``
    Molecular dynamics with a growing matrix of forces.
``lattice_boltzmann``
    Flow in a lid-driven cavity, on a growing grid.
``cube``
    Totals of a table by several keys: items, stores and days (MOLAP).
``bands``
    Rows of an array that a program computes at a time.
``scenes``
    A hyperspectral scene that arrives in pieces, and the order in which they arrive.

May use: the face, mpi, plot.
"""
