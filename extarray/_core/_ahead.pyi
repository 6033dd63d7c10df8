# No Python names: the functions are cimported, see _ahead.pxd.
