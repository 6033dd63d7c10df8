"""Applications: what scientists do with arrays that grow, in a few short modules each.

They use the public face alone, and other packages through the extra ``[apps]``.

Its modules, from the top down; each uses some of those below it:

``scenes``
    A hyperspectral scene that arrives in pieces, and the order in which they arrive.

May use: the face, mpi, plot.
"""
