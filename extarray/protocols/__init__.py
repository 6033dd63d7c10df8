"""NumPy's protocols: what makes an array of ours work where NumPy's does.

``blocks`` cuts an operation into boxes that are in memory for a moment, and runs them on threads;
the other modules say what is done to a box, and how the parts become one result.
"""
