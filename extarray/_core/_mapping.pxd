# The memory behind an array: a mapped file, a plain file, or anonymous memory.

cimport cython
from libc.stdint cimport uint64_t

from ._types cimport index_t


# A bitmap of chunk addresses: a root and two levels, allocated only around set bits.
cdef enum:
    LEAF_BITS = 15
    NODE_BITS = 12
    ROOT_BITS = 12

cdef struct node_t:
    uint64_t *leaf[1 << NODE_BITS]

cdef struct touched_t:
    node_t *node[1 << ROOT_BITS]
    uint64_t missed             # not 0: some chunks could not be set
    uint64_t spared             # calls of `touched_spare`


# Address space of a region, in a ring of all regions; those of one file are neighbours.
cdef struct window_t:
    const char *base            # NULL: the file is not mapped
    size_t size
    uint64_t device, inode      # of the file; 0 and the address: anonymous memory
    bint is_file
    char *pages                 # see Region
    char *blocks
    window_t *next
    window_t *previous


cdef class Touched:
    cdef touched_t *root


cdef class Counter:
    cdef const uint64_t *place  # NULL: by pread
    cdef char *page             # the mapped page of a file, or NULL
    cdef size_t length, offset
    cdef int fd

    cdef uint64_t look(self) noexcept


cdef class MappedWords:
    cdef uint64_t *place
    cdef char *page
    cdef size_t length, n
    cdef bint writable


cdef class Region:
    cdef char *base             # NULL: not mapped
    # More windows onto the same bytes.  A fault through `base` brings neighbouring pages that the
    # system guesses are wanted; through `pages` just its own page, through `blocks` the huge page
    # around it.  Equal to `base` if there are no such windows.
    cdef char *pages
    cdef char *blocks
    cdef size_t window          # bytes of address space behind base
    cdef size_t committed       # anonymous memory: accessible bytes
    cdef int fd                 # -1: anonymous memory
    cdef index_t start          # where in the file the bytes begin
    cdef size_t head            # bytes of the file that are mapped before base
    cdef size_t shown           # bytes that the window shows, if the file's length limits them
    cdef bint is_writable       # the window, if it shows a file
    # A look that finds the wanted bytes cached lets twice as many large reads pass unchecked as the
    # look before, up to a limit; otherwise the next read looks again.
    cdef int warm               # reads that pass after the last look ...
    cdef int passing            # ... and how many of them are left
    cdef window_t here
    cdef object __weakref__

    cdef void _take(self, char *base, size_t window) noexcept
    cdef bint _show(self, size_t length) except -1
    cdef char *_map_again(self, bint writable) noexcept
    cdef void _unmap(self) noexcept
    cdef bint shows(self, const char *first, const char *last) noexcept


@cython.final
cdef class Epoch:
    cdef index_t n_users
    cdef index_t number


cdef class Users:
    cdef list epochs            # oldest first: epochs that may have users, and the present one
    cdef Epoch last             # the present one


cdef class Lease:
    cdef Region region
    cdef Epoch epoch


cdef Epoch join(Users users)
cdef Lease lease(Region region, Epoch epoch)
cdef int reserve_pages(int fd, index_t offset, index_t length) noexcept nogil
cdef int populate_ends(char *base, size_t start, size_t stop) noexcept nogil
cdef int populate_alone(char *base, size_t start, size_t stop) noexcept nogil
cdef bint touched_get(const touched_t *root, index_t address) noexcept nogil
cdef void touched_set(touched_t *root, index_t address) noexcept nogil
cdef bint touched_spare(touched_t *root, index_t address) noexcept nogil
cdef bint touched_missed(const touched_t *root) noexcept nogil
cdef void touched_drop(touched_t *root, index_t address) noexcept nogil
cdef index_t touched_take(touched_t *root, index_t first, index_t limit, index_t *taken) noexcept nogil
cdef bint is_shown(const char *first, const char *last) noexcept
