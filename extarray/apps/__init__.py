"""Applications: what scientists do with arrays that grow, in a few short modules each.

They use only the public face, and other packages through the extra ``[apps]``.

Its modules, from the top down; each uses some of those below it:

``matrix_product``
    Multiply matrices larger than memory, whose factors grow.
``lennard_jones``
    Molecular dynamics with a growing matrix of forces.
``lattice_boltzmann``
    Flow in a lid-driven cavity, on a growing grid.
``cube``
    Totals of a table by several keys: items, stores and days (MOLAP).
``cube_columns``
    Columns of a table: labels and quantities, and types of cells and axes that keep their values.
``bands``
    Bands of rows that a program computes at a time.
``scene_pictures``
    Draw a scene that has arrived in pieces: its colours, its materials, their places.
``hyperspectral``
    Hyperspectral analysis: the public names of the modules below.
``hyperspectral_growing``
    Keep the statistics and endmembers of a growing scene up to date without rereading it.
``hyperspectral_classes``
    Spectral angles and classes of pixels, and their accuracy.
``hyperspectral_unmixing``
    Abundances of endmembers in each pixel, by constrained least squares.
``hyperspectral_purity``
    Endmembers as the pixels with the greatest index: PPI, and AMEE, which looks at neighbourhoods.
``hyperspectral_endmembers``
    Endmembers as the pixels that span the others: ATGP, VCA and N-FINDR.
``hyperspectral_components``
    Statistics of a scene, and results from them: components, noise, number of endmembers.
``hyperspectral_blocks``
    A scene as blocks of whole spectra, shared by ranks; sums do not depend on the ranks.
``hyperspectral_pixels``
    Scenes in their owners' forms, read box by box; which of their pixels have data.
``scenes``
    A hyperspectral scene that arrives in pieces, and the order in which they arrive.

May use: the face, mpi, plot.
"""
