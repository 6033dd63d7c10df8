"""Benchmarks of extarray and its peers; see README.md in this folder."""
