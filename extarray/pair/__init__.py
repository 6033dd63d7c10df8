"""The parts of `extarray.store.FileStore`, each a class above the one that it needs.

`states` finds the state that counts, `following` goes on in newer ones, `commits` makes them,
`allocation` sees to the space of the chunks, and `member` to commits of several arrays.
"""
