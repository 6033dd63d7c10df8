"""Every kind of index: what stands between the brackets becomes a query, which the core runs."""
