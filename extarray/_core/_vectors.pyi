# Everything of this module is for others of the core.
