# Operating system calls; `_system.h` documents each.  A header beside it is built on them.

from libc.stdint cimport int64_t, uint64_t


cdef extern from "_system.h":
    ctypedef int64_t off_t "xa_offset"
    int XA_UNSUPPORTED, XA_HAS_BARRIER, XA_MAPS_FREELY
    size_t XA_WINDOW_BYTES

    # Bytes of a file.
    Py_ssize_t xa_read_at(int fd, void *to, size_t n, off_t offset) noexcept nogil
    Py_ssize_t xa_write_at(int fd, const void *data, size_t n, off_t offset) noexcept nogil
    int xa_length(int fd, int64_t *length) noexcept nogil
    int xa_length_now(int fd, int64_t *length) noexcept nogil
    int xa_set_length(int fd, off_t length) noexcept nogil
    void xa_close(int fd) noexcept nogil
    long xa_page_bytes() noexcept nogil
    int xa_datasync(int fd) noexcept nogil
    int xa_barrier(int fd) noexcept nogil
    void xa_write_back(int fd, off_t offset, off_t length, int wait) noexcept nogil
    bint xa_is_cached(int fd, off_t offset) noexcept nogil
    void xa_forget(int fd, off_t offset, off_t length) noexcept nogil
    void xa_ask_for(int fd, off_t offset, off_t length) noexcept nogil

    # File systems and disk space.
    int64_t xa_filesystem(int fd) noexcept
    int64_t xa_generation(int fd) noexcept
    bint xa_exceeds_disk(int fd, off_t length) noexcept nogil
    int xa_reserve(int fd, off_t offset, off_t length) noexcept nogil
    int xa_punch(int fd, off_t offset, off_t length) noexcept nogil
    int xa_zero(int fd, off_t offset, off_t length) noexcept nogil
    int xa_lengthen(int fd, off_t offset, off_t length) noexcept nogil

    # Address space.
    uint64_t xa_physical_bytes() noexcept nogil
    char *xa_keep_free(size_t length, size_t alignment) noexcept nogil
    void xa_unmap(char *base, size_t length) noexcept nogil
    long xa_map_bytes() noexcept nogil
    char *xa_map_file(char *at, size_t length, int fd, off_t offset, int writable) noexcept nogil
    char *xa_keep_window(size_t length, size_t alignment) noexcept nogil
    int xa_show_file(
        char *window, size_t length, size_t *shown, size_t least, int fd, off_t offset, int writable
    ) noexcept nogil
    int xa_write_views(char *window, size_t length) noexcept nogil
    size_t xa_memory_bytes() noexcept nogil
    int xa_open_memory(char *base, size_t length) noexcept nogil
    void xa_cover(char *base, size_t length) noexcept nogil
    void xa_discard(char *base, size_t length) noexcept nogil
    int xa_populate(char *base, size_t length, int store) noexcept nogil
    void xa_bring(char *base, size_t length) noexcept nogil
    void xa_give_back(char *base, size_t length) noexcept nogil
    void xa_advise_huge(char *base, size_t length) noexcept nogil
    void xa_advise_scattered(char *base, size_t length) noexcept nogil
    bint xa_brings_huge_pages() noexcept nogil


cdef extern from "_sieve.h":
    # Leave to write back the bytes between elements.
    ctypedef struct sieve_t "xa_sieve":
        pass
    int XA_CHUNK_LOCKS
    void xa_sieve_init(sieve_t *sieve) noexcept nogil
    bint xa_begin_sieving(sieve_t *sieve, int fd, int64_t byte) noexcept nogil
    void xa_end_sieving(sieve_t *sieve, int fd, int64_t byte) noexcept nogil
    void xa_stop_sieving(sieve_t *sieve) noexcept nogil
    void lock_chunk "xa_lock_chunk"(sieve_t *sieve, int64_t address) noexcept nogil
    void unlock_chunk "xa_unlock_chunk"(sieve_t *sieve, int64_t address) noexcept nogil
    bint sieving_is_over "xa_is_over"(sieve_t *sieve) noexcept nogil
