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
``cube_columns``
    Columns of a table: labels and quantities, in types of cells and axes that change neither.
``bands``
    Rows of an array that a program computes at a time.
``scene_pictures``
    Pictures of a scene that has arrived in pieces: its colours, its materials, where they are.
``hyperspectral``
    Hyperspectral analysis: what is public of the modules below.
``hyperspectral_growing``
    A scene that grows: its statistics and endmembers, kept up without reading it again.
``hyperspectral_classes``
    Spectral angles and classes of pixels, and how right they are.
``hyperspectral_unmixing``
    Abundances of endmembers in each pixel, by least squares under constraints.
``hyperspectral_purity``
    Endmembers as the pixels of the greatest index: PPI, and AMEE, which looks at neighbourhoods.
``hyperspectral_endmembers``
    Endmembers as the pixels that span the others: ATGP, VCA and N-FINDR.
``hyperspectral_components``
    Statistics of a scene, and what follows from them: components, noise, number of endmembers.
``hyperspectral_blocks``
    A scene as blocks of whole spectra, which ranks share, and sums that do not depend on the ranks.
``hyperspectral_pixels``
    Scenes as their owners keep them, read box by box; which of their pixels have data.
``scenes``
    A hyperspectral scene that arrives in pieces, and the order in which they arrive.

May use: the face, mpi, plot.
"""
