"""Bridges to other libraries, each imported by those who use it.

A bridge stands beside the array: it uses its public face alone, and imports its library through
`extras.require`.
"""
