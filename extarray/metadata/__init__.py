"""The bytes of ``.xmd``, in pure functions.

The pages in ``docs/format`` specify them; this package is those pages in Python.  `places` says
where things stand, `header` with `dtypes`, `superblock`, `records`, `sumstable`, `groups` and
`writers` what they are, `fitting` whether they can be true, and `fresh` makes a whole file.
"""
