# Axial vectors for kernels: everything of this module is for others of the core.
