/* Every operating system call that compiled code makes: files, mappings, locks, threads.
 *
 * Other C and Cython code includes this and names no POSIX header, call or flag, so that a port
 * needs another version of this file alone.  `extarray.common.system` is the Python counterpart.
 * Functions return 0 or an errno unless they say otherwise; EOPNOTSUPP means that the system or the
 * file system has no such call.
 */

#ifndef XA_SYSTEM_H
#define XA_SYSTEM_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#endif

typedef off_t xa_offset;

/* -- bytes of a file ---------------------------------------------------------------------------- */

/* Bytes moved, or -1 with errno set. */
static inline ssize_t xa_read_at(int fd, void *to, size_t n, xa_offset offset) {
    return pread(fd, to, n, offset);
}
static inline ssize_t xa_write_at(int fd, const void *from, size_t n, xa_offset offset) {
    return pwrite(fd, from, n, offset);
}

static inline int xa_length(int fd, int64_t *length) {
    struct stat about;
    if (fstat(fd, &about)) return errno;
    *length = (int64_t) about.st_size;
    return 0;
}
/* The length that the server knows, where the system may remember an older one of its own. */
static inline int xa_length_now(int fd, int64_t *length) {
#if defined(AT_STATX_FORCE_SYNC) && defined(STATX_SIZE)
    struct statx about;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &about) == 0) {
        *length = (int64_t) about.stx_size;
        return 0;
    }
#endif
    return xa_length(fd, length);
}
static inline int xa_set_length(int fd, xa_offset length) { return ftruncate(fd, length) ? errno : 0; }

static inline void xa_close(int fd) { (void) close(fd); }

/* The unit of mappings, and of the system's cache of files. */
static inline long xa_page_bytes(void) { return sysconf(_SC_PAGESIZE); }

/* -- file systems and disk space ---------------------------------------------------------------- */

/* The number of a type of file system (statfs); 0: not known. */
#if defined(__linux__)
static inline long xa_filesystem(int fd) {
    struct statfs about;
    return fstatfs(fd, &about) ? 0 : (long) (unsigned int) about.f_type;
}
#else
static inline long xa_filesystem(int fd) { (void) fd; return 0; }
#endif

/* Whether the whole disk is known to be smaller than this.  Some file systems would fill up before
 * they report it, and stay full.  Do not call it below 1 GiB: so small a disk soon fills and
 * empties anyway. */
static inline int xa_exceeds_disk(int fd, off_t length) {
    struct statvfs about;
    return length >> 30 && fstatvfs(fd, &about) == 0 && about.f_blocks != 0
        && about.f_frsize != 0 && (uint64_t) length / about.f_frsize > about.f_blocks;
}

/* Whether a byte of a file is (or may be) in the system's cache.  A read that may not wait comes
 * last: it can bring a small page, which keeps a huge one out. */
static inline int xa_is_cached(int fd, off_t offset) {
#if defined(__linux__)
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
    struct { uint64_t offset, length; } range = {(uint64_t) offset, 1};
    struct { uint64_t n_cached, n_dirty, n_in_writeback, n_evicted, n_recently_evicted; } pages;
    static int is_told = 1;     /* 0: the system has no such call */
    if (__atomic_load_n(&is_told, __ATOMIC_RELAXED)) {
        if (syscall(__NR_cachestat, fd, &range, &pages, 0) == 0) return pages.n_cached != 0;
        if (errno == ENOSYS) __atomic_store_n(&is_told, 0, __ATOMIC_RELAXED);
    }
#if defined(RWF_NOWAIT)
    char byte;
    struct iovec place = {&byte, 1};
    return preadv2(fd, &place, 1, offset, RWF_NOWAIT) >= 0 || errno != EAGAIN;
#endif
#endif
    (void) fd; (void) offset;
    return 1;
}

/* Drop bytes of a file from the system's cache, so that the next read asks the server.  The system
 * keeps cached pages that the range covers in part, so the range is widened to huge pages. */
static inline void xa_forget(int fd, off_t offset, off_t length) {
#if defined(POSIX_FADV_DONTNEED)
    off_t unit = (off_t) 1 << 21, start = offset & -unit;
    (void) posix_fadvise(fd, start, length ? offset - start + ((length + unit - 1) & -unit) : 0,
                         POSIX_FADV_DONTNEED);
#else
    (void) fd; (void) offset; (void) length;
#endif
}

/* Begin to bring bytes of a file into the system's cache: these pages, and none around them. */
static inline void xa_ask_for(int fd, off_t offset, off_t length) {
#if defined(POSIX_FADV_WILLNEED)
    (void) posix_fadvise(fd, offset, length, POSIX_FADV_WILLNEED);
#else
    (void) fd; (void) offset; (void) length;
#endif
}

#if defined(__linux__)
static inline int xa_fallocate(int fd, int mode, off_t offset, off_t length) {
    while (fallocate(fd, mode, offset, length))
        if (errno != EINTR) return errno == ENOSYS ? EOPNOTSUPP : errno;
    return 0;
}
/* Not posix_fallocate: if the file system cannot, glibc writes into the range, which may undo
 * another process's stores.
 *
 * A store through a mapping needs space for its whole page, perhaps several blocks of the file
 * system: so whole pages get space, and only whole pages lose it. */
static inline int xa_reserve(int fd, off_t offset, off_t length) {
    off_t page = sysconf(_SC_PAGESIZE), low = offset & -page;
    if (xa_exceeds_disk(fd, length)) return ENOSPC;
    return xa_fallocate(fd, FALLOC_FL_KEEP_SIZE, low, ((offset + length + page - 1) & -page) - low);
}
static inline int xa_punch(int fd, off_t offset, off_t length) {
    off_t page = sysconf(_SC_PAGESIZE);
    off_t low = (offset + page - 1) & -page, high = (offset + length) & -page;
    if (low >= high) return 0;
    return xa_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, low, high - low);
}
/* Start writing dirty cache pages of a range; with `wait`, wait until they are written. */
static inline void xa_write_back(int fd, off_t offset, off_t length, int wait) {
    unsigned flags = SYNC_FILE_RANGE_WRITE;
    if (wait) flags |= SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
    (void) sync_file_range(fd, offset, length, flags);
}
/* Zeroes the whole range, which keeps its space. */
static inline int xa_zero(int fd, off_t offset, off_t length) {
    return xa_fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, length);
}
#else
/* Functions, as above: `_file.pyx` passes some of them on. */
static inline int xa_reserve(int fd, off_t offset, off_t length) {
    (void) fd; (void) offset; (void) length;
    return EOPNOTSUPP;
}
static inline int xa_punch(int fd, off_t offset, off_t length) {
    (void) fd; (void) offset; (void) length;
    return EOPNOTSUPP;
}
static inline void xa_write_back(int fd, off_t offset, off_t length, int wait) {
    (void) fd; (void) offset; (void) length; (void) wait;
}
static inline int xa_zero(int fd, off_t offset, off_t length) {
    (void) fd; (void) offset; (void) length;
    return EOPNOTSUPP;
}
#endif

/* The generation of a file among those with its inode number; 0 if unknown. */
static inline long xa_generation(int fd) {
    long found = 0; /* some file systems set only an int */
#if defined(__linux__)
    if (ioctl(fd, _IOR('v', 1, long), &found)) return 0; /* FS_IOC_GETVERSION */
#else
    (void) fd;
#endif
    return found;
}

/* Flush a file's bytes to disk, with the metadata needed to read them. */
static inline int xa_datasync(int fd) {
    int failed;
    do {
#if defined(__APPLE__)
        failed = fsync(fd);
#else
        failed = fdatasync(fd);
#endif
    } while (failed && errno == EINTR);
    return failed ? errno : 0;
}

/* Lengthen a file by allocated bytes; EOPNOTSUPP if the system has no such call. */
static inline int xa_lengthen(int fd, off_t offset, off_t length) {
#if defined(__APPLE__)
    (void) fd; (void) offset; (void) length;
    return EOPNOTSUPP;
#else
    int failure;
    do failure = posix_fallocate(fd, offset, length); while (failure == EINTR);
    return failure;
#endif
}

/* Leave to write back gaps between elements (see `Sieve`): locks shared out among the chunks, and
 * the number of this process's transfers that use the leave. */
#define XA_CHUNK_LOCKS 64
typedef struct {
    pthread_mutex_t chunk[XA_CHUNK_LOCKS];
    pthread_mutex_t counting;
    int n_users;
    int is_over;
} xa_sieve;

static inline void xa_sieve_init(xa_sieve *s) {
    for (int i = 0; i < XA_CHUNK_LOCKS; i++) pthread_mutex_init(&s->chunk[i], NULL);
    pthread_mutex_init(&s->counting, NULL);
    s->n_users = 0;
    s->is_over = 0;
}

static inline int xa_is_over(xa_sieve *s) { return __atomic_load_n(&s->is_over, __ATOMIC_SEQ_CST); }

static inline void xa_lock_chunk(xa_sieve *s, int64_t address) {
    pthread_mutex_lock(&s->chunk[(uint64_t) address % XA_CHUNK_LOCKS]);
}
static inline void xa_unlock_chunk(xa_sieve *s, int64_t address) {
    pthread_mutex_unlock(&s->chunk[(uint64_t) address % XA_CHUNK_LOCKS]);
}

/* A writer has the leave while it locks one byte of the file and nobody shares the lock on the
 * next: a concurrent writer of elements locks that first, then waits for the other byte. */
#if defined(F_OFD_SETLK)
static inline int xa_lock_byte(int fd, int command, int kind, int64_t byte) {
    struct flock range;
    memset(&range, 0, sizeof range);
    range.l_type = (short) kind;
    range.l_whence = SEEK_SET;
    range.l_start = byte;
    range.l_len = 1;
    return fcntl(fd, command, &range) ? -1 : range.l_type;
}
static inline int xa_take_leave(int fd, int64_t byte) {
    return xa_lock_byte(fd, F_OFD_SETLK, F_WRLCK, byte) >= 0;
}
static inline int xa_is_alone(int fd, int64_t byte) {
    return xa_lock_byte(fd, F_OFD_GETLK, F_WRLCK, byte + 1) == F_UNLCK;
}
static inline void xa_drop_leave(int fd, int64_t byte) {
    if (xa_lock_byte(fd, F_OFD_SETLK, F_UNLCK, byte) < 0)  /* others wait for it */
        (void) xa_lock_byte(fd, F_OFD_SETLK, F_UNLCK, byte);
}
#else
static inline int xa_take_leave(int fd, int64_t byte) {
    (void) byte;
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}
static inline int xa_is_alone(int fd, int64_t byte) { (void) fd; (void) byte; return 1; }
static inline void xa_drop_leave(int fd, int64_t byte) { (void) byte; (void) flock(fd, LOCK_UN); }
#endif

/* Whether the leave is given, until `xa_end_sieving`. */
static inline void xa_end_sieving(xa_sieve *s, int fd, int64_t byte) {
    pthread_mutex_lock(&s->counting);
    if (--s->n_users == 0) xa_drop_leave(fd, byte);
    pthread_mutex_unlock(&s->counting);
}
static inline int xa_begin_sieving(xa_sieve *s, int fd, int64_t byte) {
    int given;
    pthread_mutex_lock(&s->counting);
    given = !xa_is_over(s) && (s->n_users > 0 || xa_take_leave(fd, byte));
    if (given && !xa_is_alone(fd, byte)) {
        if (s->n_users == 0) xa_drop_leave(fd, byte);
        given = 0;
    }
    s->n_users += given;
    pthread_mutex_unlock(&s->counting);
    return given;
}

/* Refuse the leave from now on, and wait for transfers between a read and its write. */
static inline void xa_stop_sieving(xa_sieve *s) {
    __atomic_store_n(&s->is_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < XA_CHUNK_LOCKS; i++) {
        pthread_mutex_lock(&s->chunk[i]);
        pthread_mutex_unlock(&s->chunk[i]);
    }
}

/* -- address space ------------------------------------------------------------------------------ */

/* Bytes of memory of the machine; 0: unknown. */
static inline uint64_t xa_physical_bytes(void) {
#if defined(_SC_PHYS_PAGES)
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (uint64_t) pages * (uint64_t) xa_page_bytes() : 0;
#else
    return 0;
#endif
}

/* Reserve address space without access, which costs no memory; NULL: not enough. */
static inline char *xa_keep_free(size_t length) {
    void *base = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return base == MAP_FAILED ? NULL : (char *) base;
}

/* Release address space, also a part of a reservation or mapping. */
static inline void xa_unmap(char *base, size_t length) { (void) munmap(base, length); }

/* Map a file into reserved address space `at`, or (NULL) wherever the system likes; NULL: see
 * errno.  The range may reach beyond the end of the file, which may grow into it. */
static inline char *xa_map_file(char *at, size_t length, int fd, xa_offset offset, int writable) {
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    int flags = MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    void *base = mmap(at, length, protection, flags, fd, offset);
    return base == MAP_FAILED ? NULL : (char *) base;
}

/* Back reserved address space with zeroed memory. */
static inline int xa_open_memory(char *base, size_t length) {
    return mprotect(base, length, PROT_READ | PROT_WRITE) ? errno : 0;
}

/* Show private zeroed memory instead of a mapped file. */
static inline void xa_cover(char *base, size_t length) {
    /* This fails only if the system has no room for one more mapping.  Then the file's pages stay,
     * and a load from them ends as if another program had cut the file. */
    (void) mmap(base, length, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* Zero whole pages of private memory, and return them to the system. */
static inline void xa_discard(char *base, size_t length) {
#if defined(__linux__)
    if (madvise(base, length, MADV_DONTNEED) == 0) return;
#endif
    memset(base, 0, length);
}

/* Map pages of a file.  An errno means that a load (or, with `store`, a store) would be a
 * SIGBUS. */
static inline int xa_populate(char *base, size_t length, int store) {
#if defined(__linux__)
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
    while (madvise(base, length, store ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
        if (errno != EINTR) return errno == EINVAL ? EOPNOTSUPP : errno;
    return 0;
#else
    (void) base; (void) length; (void) store;
    return EOPNOTSUPP;
#endif
}

/* The rest is advice: if the system takes none, everything works, but slower. */

/* Bring these pages of a mapped file into the system's cache, and none around them. */
static inline void xa_bring(char *base, size_t length) { (void) madvise(base, length, MADV_WILLNEED); }

/* Remove pages of a mapped file from the resident set; they stay in the system's cache. */
static inline void xa_give_back(char *base, size_t length) {
#if defined(__linux__)
    (void) madvise(base, length, MADV_DONTNEED);
#else
    (void) base; (void) length;
#endif
}

/* Make a fault bring only its own page. */
static inline void xa_advise_scattered(char *base, size_t length) {
    (void) madvise(base, length, MADV_RANDOM);
}

static inline void xa_advise_huge(char *base, size_t length) {
#ifdef MADV_HUGEPAGE
    (void) madvise(base, length, MADV_HUGEPAGE);
#else
    (void) base; (void) length;
#endif
}

/* Whether a fault on a scattered mapping can bring just one huge page: Linux can since 5.18. */
static inline int xa_brings_huge_pages(void) {
#if defined(__linux__)
    struct utsname about;
    char *rest;
    long major;
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) || uname(&about)) return 0;
    major = strtol(about.release, &rest, 10);
    return major > 5 || (major == 5 && *rest == '.' && strtol(rest + 1, NULL, 10) >= 18);
#else
    return 0;
#endif
}

/* Allocate memory for `free`, in huge pages if large: faults on a large table otherwise cost more
 * than all work on it.  NULL: no memory. */
static inline void *xa_allocate(size_t bytes) {
#ifdef MADV_HUGEPAGE
    enum { XA_HUGE_PAGE = 1 << 21 };
    if (bytes >= 2 * XA_HUGE_PAGE) {
        void *table = NULL;
        if (posix_memalign(&table, XA_HUGE_PAGE, bytes)) return NULL;
        (void) madvise(table, bytes, MADV_HUGEPAGE);
        return table;
    }
#endif
    return malloc(bytes ? bytes : 1);
}

/* -- threads ------------------------------------------------------------------------------------ */

/* A function that is called with a thread's value when the thread ends. */
typedef pthread_key_t xa_thread_key;
static inline int xa_make_thread_key(xa_thread_key *key, void (*at_end)(void *)) {
    return pthread_key_create(key, at_end);
}
static inline void xa_set_thread_value(xa_thread_key key, void *value) {
    (void) pthread_setspecific(key, value);
}

typedef pthread_once_t xa_once_t;
#define XA_ONCE_INIT PTHREAD_ONCE_INIT
static inline void xa_once(xa_once_t *once, void (*function)(void)) { (void) pthread_once(once, function); }

/* Register a function to call in each forked child. */
static inline int xa_in_forked_children(void (*function)(void)) {
    return pthread_atfork(NULL, NULL, function);
}

/* Let other threads run. */
static inline void xa_yield(void) { (void) sched_yield(); }

/* -- the processor ------------------------------------------------------------------------------ */

/* Features of the processor, as the system reports them (AT_HWCAP); 0: unknown. */
static inline unsigned long xa_processor_features(void) {
#if defined(__linux__)
    return getauxval(AT_HWCAP);
#else
    return 0;
#endif
}
#endif
