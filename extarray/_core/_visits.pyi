# Visits of a query to chunks: everything of this module is for others of the core.
