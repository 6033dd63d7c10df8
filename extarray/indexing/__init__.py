"""Every kind of index: what stands between the brackets becomes a query, which the core runs.

`entries` tells the kinds of entries apart; `brackets` (NumPy's rules), `orthogonal` and `pointwise`
(zarr's) make a query of `factors`; `transfers` reads and writes it, `fields` a part of each
record.  `selections` and `indexable` are what an array has of all this.
"""
