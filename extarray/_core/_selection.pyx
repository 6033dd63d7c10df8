"""NumPy's basic indexing: integers, slices, Ellipsis, newaxis -> a box of elements.

Errors have NumPy's classes and wording.  Any other kind of index (masks, arrays, lists, field
names, and everything that NumPy refuses) is left to `extarray.selection`.
"""

import operator

from cpython.bool cimport PyBool_Check
from cpython.long cimport PyLong_CheckExact
from cpython.slice cimport PySlice_Check

from ._types cimport MAX_NDIM, index_t

from extarray.common.errors import BoundsError

cdef extern from "Python.h":
    int PySlice_Unpack(object slice, Py_ssize_t *start, Py_ssize_t *stop, Py_ssize_t *step) except -1
    Py_ssize_t PySlice_AdjustIndices(
        Py_ssize_t length, Py_ssize_t *start, Py_ssize_t *stop, Py_ssize_t step) noexcept


cdef enum kind_t:
    INTEGER
    SLICE
    ELLIPSIS
    NEWAXIS
    OTHER


cdef int kind_of(object item) except -1:
    """Return the kind of one entry between the brackets."""
    if PyLong_CheckExact(item):
        return INTEGER
    if PySlice_Check(item):
        return SLICE
    if item is Ellipsis:
        return ELLIPSIS
    if item is None:
        return NEWAXIS
    if PyBool_Check(item) or isinstance(item, (str, list, tuple)) or getattr(item, "ndim", 0) > 0:
        return OTHER
    if getattr(getattr(item, "dtype", None), "kind", "") == "b":
        return OTHER
    try:
        operator.index(item)
    except TypeError:
        return OTHER
    return INTEGER


cdef int take_integer(object item, const index_t *shape, int axis, selection_t *s) except -1:
    cdef index_t i, n = shape[axis]
    try:
        i = operator.index(item)
    except OverflowError:
        raise BoundsError(
            f"index {item} is out of bounds for axis {axis} with size {n}") from None
    if i < -n or i >= n:
        raise BoundsError(f"index {i} is out of bounds for axis {axis} with size {n}")
    s.start[axis] = i + n if i < 0 else i
    s.step[axis] = 1
    s.count[axis] = 1
    return 0


cdef int take_slice(object item, const index_t *shape, int axis, selection_t *s) except -1:
    cdef Py_ssize_t start, stop, step
    PySlice_Unpack(item, &start, &stop, &step)
    s.count[axis] = PySlice_AdjustIndices(shape[axis], &start, &stop, step)
    s.start[axis] = start
    s.step[axis] = step
    add_result_axis(s, axis, s.count[axis])
    return 0


cdef int add_result_axis(selection_t *s, int axis, index_t extent) except -1:
    if s.result_ndim == MAX_RESULT_NDIM:
        raise BoundsError(
            f"number of dimensions must be within [0, {MAX_RESULT_NDIM}], indexing result would "
            f"have {s.result_ndim + 1}")
    s.result_axis[s.result_ndim] = axis
    s.result_shape[s.result_ndim] = extent
    s.result_ndim += 1
    return 0


cdef int take_whole(const index_t *shape, int axis, selection_t *s) except -1:
    s.start[axis] = 0
    s.step[axis] = 1
    s.count[axis] = shape[axis]
    add_result_axis(s, axis, shape[axis])
    return 0


cdef bint parse(object key, const index_t *shape, int ndim, selection_t *s) except -1:
    """Fill `s` from an index expression on an array of the given shape; return False if it has
    entries other than integers, slices, Ellipsis and newaxis."""
    cdef Py_ssize_t n, i
    cdef int axis = 0, used = 0, ellipses = 0, kind
    cdef char kinds[MAX_RESULT_NDIM + MAX_NDIM]
    cdef object item
    s.ndim = ndim
    s.result_ndim = 0
    if not isinstance(key, tuple):
        key = (key,)
    n = len(key)
    if n > MAX_RESULT_NDIM + MAX_NDIM:
        raise BoundsError(f"too many indices for array: array is {ndim}-dimensional, but {n} were indexed")
    for i in range(n):
        kind = kind_of(key[i])
        if kind == OTHER:
            return False
        kinds[i] = kind
        if kind == INTEGER or kind == SLICE:
            used += 1
        elif kind == ELLIPSIS:
            ellipses += 1
    if ellipses > 1:
        raise BoundsError("an index can only have a single ellipsis ('...')")
    if used > ndim:
        raise BoundsError(
            f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    s.is_scalar = ellipses == 0
    for i in range(n):
        item = key[i]
        kind = kinds[i]
        if kind == INTEGER:
            take_integer(item, shape, axis, s)
            axis += 1
        elif kind == SLICE:
            take_slice(item, shape, axis, s)
            axis += 1
        elif kind == NEWAXIS:
            add_result_axis(s, -1, 1)
        else:
            for _ in range(ndim - used):
                take_whole(shape, axis, s)
                axis += 1
    while axis < ndim:
        take_whole(shape, axis, s)
        axis += 1
    s.is_scalar = s.is_scalar and s.result_ndim == 0
    return True


cdef index_t selection_size(const selection_t *s) noexcept nogil:
    """Return the number of elements selected."""
    cdef index_t size = 1
    cdef int j
    for j in range(s.ndim):
        size *= s.count[j]
    return size


cdef object result_shape(const selection_t *s):
    """Return the shape of the result, as a tuple."""
    cdef int i
    return tuple([s.result_shape[i] for i in range(s.result_ndim)])


cdef int whole_box(object start, object stop, int ndim, selection_t *s) except -1:
    """Set the selection of elements start ... stop - 1."""
    cdef int j
    s.ndim = s.result_ndim = ndim
    s.is_scalar = False
    for j in range(ndim):
        s.start[j] = start[j]
        s.step[j] = 1
        s.count[j] = s.result_shape[j] = max(0, stop[j] - start[j])
        s.result_axis[j] = j
    return 0


cdef int box_of(object query, int ndim, selection_t *s) except -1:
    """Set the selection of a query whose factors are all progressions."""
    cdef int dim
    s.ndim = ndim
    s.result_ndim = len(query.shape)
    for dim in range(s.result_ndim):
        s.result_axis[dim] = -1
        s.result_shape[dim] = query.shape[dim]
    for factor in query.factors:
        s.start[<int> factor.axis] = factor.start
        s.step[<int> factor.axis] = factor.step
        s.count[<int> factor.axis] = factor.count
        if factor.dim >= 0:
            s.result_axis[<int> factor.dim] = factor.axis
    return 0


cdef int widest(const selection_t *s) noexcept:
    """Return the first dimension of the result along which it can be halved, or -1."""
    cdef int i
    for i in range(s.result_ndim):
        if s.result_axis[i] >= 0 and s.result_shape[i] > 1:
            return i
    return -1


cdef int narrow(const selection_t *s, int dim, index_t low, index_t high, selection_t *part) except -1:
    """Set the part of a selection from index `low` to `high` of a dimension of its result."""
    cdef int axis = s.result_axis[dim]
    part[0] = s[0]
    part.start[axis] = s.start[axis] + low * s.step[axis]
    part.count[axis] = part.result_shape[dim] = high - low
    return 0


cdef bint fits(tuple shape, const selection_t *s) except -1:
    """Tell whether a shape broadcasts to that of the selection."""
    cdef int missing = s.result_ndim - <int> len(shape), i
    if missing < 0:
        return False
    for i in range(len(shape)):
        if shape[i] != 1 and shape[i] != s.result_shape[missing + i]:
            return False
    return True
