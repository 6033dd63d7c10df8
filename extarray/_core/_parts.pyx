"""Parts of chunks in file order: the content of a file view, and its staging buffer.

A box of elements is the outer product of the pieces into which chunks cut its axes; each
combination of pieces is a part of one chunk.  `Parts` lays the parts out in a buffer in the order
of their bytes in the file: a part is either one run of bytes, gaps included, or the runs of its
elements alone.  It lists the runs, for a file type, and moves the elements between the buffer and
the user's memory, without the GIL.
"""

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int32_t

from ._copy cimport copy_block, end_stream, is_close
from ._types cimport MAX_NDIM, index_t

cnp.import_array()


cdef class Parts:
    """Parts of chunks, by rising place in the file.

    Parameters
    ----------
    offsets : (n,) array of int64
        File offset of the first element of each part, rising.
    pieces : (n, k) array of int32
        For each part, its piece of each axis.
    counts, positions : (k, m) array of int64
        For each piece of an axis: its elements, and the elements of the box before it.
    strides : sequence of k ints
        File bytes between elements of a part, along each axis.
    axes : sequence of k ints
        Axes by rising stride of the chunks.
    gaps : bool
        Whether bytes between the elements may be moved, too: for reading.
    """

    # For each part: its file offset, its bytes in the buffer, and its number of byte runs in the
    # file.
    cdef readonly object offsets, nbytes, n_runs
    cdef const index_t[::1] offset
    cdef const int32_t[:, ::1] piece
    cdef const index_t[:, ::1] count
    cdef const index_t[:, ::1] position
    cdef index_t[::1] size, runs_of
    cdef index_t stride[MAX_NDIM]
    cdef int axis[MAX_NDIM]
    cdef int ndim
    cdef index_t itemsize
    cdef bint gaps

    def __init__(
        self, offsets not None, pieces not None, counts not None, positions not None,
        strides not None, axes not None, index_t itemsize, bint gaps
    ):
        cdef Py_ssize_t n = len(offsets), i
        cdef index_t count[MAX_NDIM]
        cdef index_t stride[MAX_NDIM]
        cdef index_t run
        cdef int inner, j
        self.offset = self.offsets = offsets
        self.piece = pieces
        self.count = counts
        self.position = positions
        self.ndim = len(strides)
        self.itemsize = itemsize
        self.gaps = gaps
        for j in range(self.ndim):
            self.stride[j] = strides[j]
            self.axis[j] = axes[j]
        self.nbytes = np.empty(n, np.int64)
        self.n_runs = np.empty(n, np.int64)
        self.size = self.nbytes
        self.runs_of = self.n_runs
        with nogil:
            for i in range(n):
                self.size[i] = self.lay_out(i, count, stride, &run, &self.runs_of[i], &inner)

    def __len__(self):
        return self.offset.shape[0]

    cdef index_t lay_out(
        self, Py_ssize_t part, index_t *count, index_t *stride, index_t *run, index_t *n_runs, int *inner
    ) noexcept nogil:
        """Lay a part out in the buffer; return its bytes there.

        Sets the extents, the bytes between elements, the bytes of a run, the number of runs, and
        how many axes lie inside a run.
        """
        cdef index_t span = self.itemsize, size = self.itemsize
        cdef int i, j
        run[0] = self.itemsize
        n_runs[0] = 1
        inner[0] = 0
        for i in range(self.ndim):
            j = self.axis[i]
            count[j] = self.count[j, self.piece[part, j]]
            span += (count[j] - 1) * self.stride[j]
            stride[j] = size
            # Elements along this axis are contiguous if all faster axes make one run.
            if inner[0] == i and (count[j] == 1 or self.stride[j] == run[0]):
                run[0] *= count[j]
                inner[0] = i + 1
            else:
                n_runs[0] *= count[j]
            size *= count[j]
        if n_runs[0] > 1 and self.gaps and is_close(span, size):
            for j in range(self.ndim):
                stride[j] = self.stride[j]
            run[0] = size = span
            n_runs[0] = 1
        return size

    def runs(self, Py_ssize_t first, Py_ssize_t stop):
        """Return the runs of bytes in the file that make up parts first ... stop - 1.

        Two lists, lengths and displacements, by rising displacement; adjacent runs are merged.
        """
        cdef index_t count[MAX_NDIM]
        cdef index_t stride[MAX_NDIM]
        cdef index_t at[MAX_NDIM]
        cdef index_t run, n_runs, place, end = -1
        cdef Py_ssize_t part, n = 0, m
        cdef int inner, i, j
        most = int(np.sum(self.n_runs[first:stop]))
        length_array = np.empty(most, np.int64)
        place_array = np.empty(most, np.int64)
        cdef index_t[::1] lengths = length_array, places = place_array
        with nogil:
            for part in range(first, stop):
                self.lay_out(part, count, stride, &run, &n_runs, &inner)
                place = self.offset[part]
                for i in range(self.ndim):
                    at[i] = 0
                for m in range(n_runs):
                    if place == end:
                        lengths[n - 1] += run
                    else:
                        lengths[n] = run
                        places[n] = place
                        n += 1
                    end = place + run
                    if m + 1 == n_runs:
                        break
                    for i in range(inner, self.ndim):
                        j = self.axis[i]
                        at[i] += 1
                        place += self.stride[j]
                        if at[i] < count[j]:
                            break
                        place -= count[j] * self.stride[j]
                        at[i] = 0
        return length_array[:n].tolist(), place_array[:n].tolist()

    def move(
        self, Py_ssize_t first, Py_ssize_t stop, cnp.ndarray buffer not None,
        cnp.ndarray values not None, bint write, bint stream
    ):
        """Move parts first ... stop - 1 from the buffer to an array or (`write`) from it.

        The parts are contiguous in the buffer.  `values` has the elements of the box, with any
        strides.  With `stream`, stores of a read may bypass the caches.
        """
        cdef index_t count[MAX_NDIM]
        cdef index_t stride[MAX_NDIM]
        cdef index_t user_stride[MAX_NDIM]
        cdef index_t run, n_runs, size
        cdef char *staged = <char *> cnp.PyArray_DATA(buffer)
        cdef char *start = <char *> cnp.PyArray_DATA(values)
        cdef char *user
        cdef Py_ssize_t part
        cdef int inner, j
        for j in range(self.ndim):
            user_stride[j] = values.strides[j]
        with nogil:
            for part in range(first, stop):
                size = self.lay_out(part, count, stride, &run, &n_runs, &inner)
                user = start
                for j in range(self.ndim):
                    user += self.position[j, self.piece[part, j]] * user_stride[j]
                if write:
                    copy_block(
                        staged, stride, user, user_stride, count, self.ndim, self.itemsize, False)
                else:
                    copy_block(
                        user, user_stride, staged, stride, count, self.ndim, self.itemsize, stream)
                staged += size
            if stream:
                end_stream()
