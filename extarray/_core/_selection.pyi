# No Python names: the functions are cimported, see _selection.pxd.
