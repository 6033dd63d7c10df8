"""The bytes of ``.xmd``, in pure functions.

The page ``docs/format.md`` specifies them; this package is that page in Python.  `places` says
where things stand, `header` with `dtypes`, `superblock`, `records`, `sumstable`, `groups` and
`writers` what they are, `fitting` whether they can be true, and `fresh` makes a whole file.
"""
