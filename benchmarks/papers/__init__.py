"""The experiments of the papers on extendible arrays, run again.

Each figure, each table, and each claim without either has a module; ``python -m benchmarks.papers``
runs them.

``claims``
    The 26 claims.
``harness``
    Reports of experiments, and the timing of candidates.
``candidates``
    The stores of the arrays: ours, conventional ones, HDF5, netCDF, zarr.
``histories``, ``static_access``, ``orders_of_access``, ``ranks``, ``conversions``, ``spectral``,
``endmember_tables``, ``accuracies``
    Code that several experiments share.
``sessions``, ``outside``
    A parallel program, and the program outside that grows its arrays meanwhile.
``page``
    Plots, tables and verdicts as a page.

An experiment has a ``TITLE``; ``PAPER``, the claim of the paper; ``run(work)``, which returns a
`harness.Report`; and ``judge(report)``, which returns the verdicts.
"""

#: The modules of the experiments, in the order of running and display.
EXPERIMENTS = (
    "thesis_3_5_1",
    "thesis_3_5_2",
    "thesis_table_4_1",
    "thesis_5_4_2",
    "thesis_6_4_1",
    "thesis_6_4_2",
    "thesis_6_4_3",
    "thesis_6_4_4",
    "thesis_6_4_5",
    "thesis_6_4_6",
    "thesis_8_5_1",
    "thesis_8_5_2",
    "thesis_8_5_3",
    "thesis_8_5_4",
    "thesis_8_5_5",
    "thesis_8_5_6",
    "thesis_table_9_4",
    "thesis_table_9_5",
    "thesis_9_4_3",
    "thesis_9_4_4",
    "layout_table_2",
    "layout_table_3",
    "layout_table_4",
    "claim_05_segments",
    "claim_11_chunks_touched",
    "claim_12_cubical",
    "claim_17_readers",
    "claim_20_mapping",
    "claim_22_accuracy",
    "claim_24_swaths",
    "claim_25_scan",
    "claim_26_cube",
)
