/* The interface of `_system.h` on Linux, macOS and other POSIX systems. */

#ifndef XA_SYSTEM_POSIX_H
#define XA_SYSTEM_POSIX_H

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
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

typedef pthread_mutex_t xa_mutex;
typedef pthread_key_t xa_thread_key;
typedef pthread_once_t xa_once_t;
#define XA_ONCE_INIT PTHREAD_ONCE_INIT

/* -- bytes of a file ---------------------------------------------------------------------------- */

static inline ptrdiff_t xa_read_at(int fd, void *to, size_t n, xa_offset offset) {
    return pread(fd, to, n, offset);
}
static inline ptrdiff_t xa_write_at(int fd, const void *from, size_t n, xa_offset offset) {
    return pwrite(fd, from, n, offset);
}

static inline int xa_length(int fd, int64_t *length) {
    struct stat about;
    if (fstat(fd, &about)) return errno;
    *length = (int64_t) about.st_size;
    return 0;
}
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

static inline long xa_page_bytes(void) { return sysconf(_SC_PAGESIZE); }

/* -- file systems and disk space ---------------------------------------------------------------- */

#if defined(__linux__)
static inline int64_t xa_filesystem(int fd) {
    struct statfs about;
    return fstatfs(fd, &about) ? 0 : (int64_t) (unsigned int) about.f_type;
}
#else
static inline int64_t xa_filesystem(int fd) { (void) fd; return 0; }
#endif

static inline int xa_exceeds_disk(int fd, xa_offset length) {
    struct statvfs about;
    return length >> 30 && fstatvfs(fd, &about) == 0 && about.f_blocks != 0
        && about.f_frsize != 0 && (uint64_t) length / about.f_frsize > about.f_blocks;
}

/* A read that may not wait comes last: it can bring a small page, which keeps a huge one out. */
static inline int xa_is_cached(int fd, xa_offset offset) {
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

/* The system keeps cached pages that the range covers in part, so the range is widened to huge
 * pages. */
static inline void xa_forget(int fd, xa_offset offset, xa_offset length) {
#if defined(POSIX_FADV_DONTNEED)
    xa_offset unit = (xa_offset) 1 << 21, start = offset & -unit;
    (void) posix_fadvise(fd, start, length ? offset - start + ((length + unit - 1) & -unit) : 0,
                         POSIX_FADV_DONTNEED);
#else
    (void) fd; (void) offset; (void) length;
#endif
}

static inline void xa_ask_for(int fd, xa_offset offset, xa_offset length) {
#if defined(POSIX_FADV_WILLNEED)
    (void) posix_fadvise(fd, offset, length, POSIX_FADV_WILLNEED);
#else
    (void) fd; (void) offset; (void) length;
#endif
}

#if defined(__linux__)
static inline int xa_fallocate(int fd, int mode, xa_offset offset, xa_offset length) {
    while (fallocate(fd, mode, offset, length))
        if (errno != EINTR) return errno == ENOSYS ? XA_UNSUPPORTED : errno;
    return 0;
}
/* Not posix_fallocate: if the file system cannot, glibc writes into the range, which may undo
 * another process's stores.
 *
 * A store through a mapping needs space for its whole page, perhaps several blocks of the file
 * system: so whole pages get space, and only whole pages lose it. */
static inline int xa_reserve(int fd, xa_offset offset, xa_offset length) {
    xa_offset page = sysconf(_SC_PAGESIZE), low = offset & -page;
    if (xa_exceeds_disk(fd, length)) return ENOSPC;
    return xa_fallocate(fd, FALLOC_FL_KEEP_SIZE, low, ((offset + length + page - 1) & -page) - low);
}
static inline void xa_write_back(int fd, xa_offset offset, xa_offset length, int wait) {
    unsigned flags = SYNC_FILE_RANGE_WRITE;
    if (wait) flags |= SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER;
    (void) sync_file_range(fd, offset, length, flags);
}
static inline int xa_zero(int fd, xa_offset offset, xa_offset length) {
    return xa_fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, length);
}
#else
static inline int xa_reserve(int fd, xa_offset offset, xa_offset length) {
    (void) fd; (void) offset; (void) length;
    return XA_UNSUPPORTED;
}
static inline void xa_write_back(int fd, xa_offset offset, xa_offset length, int wait) {
    (void) fd; (void) offset; (void) length; (void) wait;
}
static inline int xa_zero(int fd, xa_offset offset, xa_offset length) {
    (void) fd; (void) offset; (void) length;
    return XA_UNSUPPORTED;
}
#endif

/* Whether a file system says so that it does not know a command. */
static inline int xa_is_refusal(int failure) {
    return failure == EINVAL || failure == ENOTTY || failure == ENOTSUP || failure == EOPNOTSUPP;
}

#if defined(F_PUNCHHOLE)
/* macOS wants whole blocks, as pages are. */
static inline int xa_make_hole(int fd, xa_offset offset, xa_offset length) {
    struct fpunchhole hole;
    int failed;
    memset(&hole, 0, sizeof hole);
    hole.fp_offset = offset;
    hole.fp_length = length;
    do failed = fcntl(fd, F_PUNCHHOLE, &hole); while (failed == -1 && errno == EINTR);
    if (failed != -1) return 0;
    return xa_is_refusal(errno) ? XA_UNSUPPORTED : errno;
}
#elif defined(__linux__)
static inline int xa_make_hole(int fd, xa_offset offset, xa_offset length) {
    return xa_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}
#else
static inline int xa_make_hole(int fd, xa_offset offset, xa_offset length) {
    (void) fd; (void) offset; (void) length;
    return XA_UNSUPPORTED;
}
#endif
static inline int xa_punch(int fd, xa_offset offset, xa_offset length) {
    xa_offset page = sysconf(_SC_PAGESIZE);
    xa_offset low = (offset + page - 1) & -page, high = (offset + length) & -page;
    return low < high ? xa_make_hole(fd, low, high - low) : 0;
}

static inline int64_t xa_generation(int fd) {
    long found = 0; /* some file systems set only an int */
#if defined(__linux__)
    if (ioctl(fd, _IOR('v', 1, long), &found)) return 0; /* FS_IOC_GETVERSION */
#else
    (void) fd;
#endif
    return found;
}

#if defined(F_FULLFSYNC) && defined(F_BARRIERFSYNC)
/* fsync of macOS leaves the bytes in the disk's own cache, which a power cut empties.  Two commands
 * go further; a file system that refuses one (a network's, or that of a memory card) may know the
 * next, and all know fsync. */
#define XA_HAS_BARRIER 1
static inline int xa_sync_by(int fd, const int *commands, int n) {
    int i, failed;
    for (i = 0; i < n; i++) {
        do failed = fcntl(fd, commands[i]); while (failed == -1 && errno == EINTR);
        if (failed != -1) return 0;
        if (!xa_is_refusal(errno)) return errno;
    }
    do failed = fsync(fd); while (failed && errno == EINTR);
    return failed ? errno : 0;
}
static inline int xa_datasync(int fd) {
    const int command = F_FULLFSYNC;
    return xa_sync_by(fd, &command, 1);
}
static inline int xa_barrier(int fd) {
    const int commands[] = {F_BARRIERFSYNC, F_FULLFSYNC};
    return xa_sync_by(fd, commands, 2);
}
#else
#define XA_HAS_BARRIER 0
static inline int xa_datasync(int fd) {
    int failed;
    do failed = fdatasync(fd); while (failed && errno == EINTR);
    return failed ? errno : 0;
}
static inline int xa_barrier(int fd) { return xa_datasync(fd); }
#endif

#if defined(F_PREALLOCATE)
/* macOS allocates behind the end of a file only, and keeps that space for as long as the file is
 * open: so the file gets longer by it at once.  The command is believed only as far as the
 * file then has more blocks. */
static inline int xa_lengthen(int fd, xa_offset offset, xa_offset length) {
    static const char zeros[1 << 14];
    xa_offset end = offset + length, at, present, block, missing;
    ptrdiff_t moved;
    struct stat before, after;
    struct statvfs disk;
    fstore_t wanted;
    if (fstat(fd, &before) || fstatvfs(fd, &disk)) return errno;
    present = before.st_size;
    block = (xa_offset) disk.f_frsize;
    if (offset > present || end <= present || block <= 0) return XA_UNSUPPORTED;
    if (xa_exceeds_disk(fd, length)) return ENOSPC;
    for (at = offset; at < present; at += moved) {  /* there may be holes */
        size_t left = (size_t) (present - at);
        moved = pwrite(fd, zeros, left < sizeof zeros ? left : sizeof zeros, at);
        if (moved < 0) return errno;
    }
    if (fstat(fd, &before)) return errno;
    missing = (end + block - 1) / block * block - (present + block - 1) / block * block;
    memset(&wanted, 0, sizeof wanted);
    wanted.fst_flags = F_ALLOCATEALL;
    wanted.fst_posmode = F_PEOFPOSMODE;
    wanted.fst_length = missing;
    if (missing > 0 && fcntl(fd, F_PREALLOCATE, &wanted) == -1)
        return errno == ENOSPC || errno == EDQUOT || errno == EINTR ? errno : XA_UNSUPPORTED;
    if (ftruncate(fd, end) || fstat(fd, &after)) return errno;
    if (missing > 0 && wanted.fst_bytesalloc < missing) return XA_UNSUPPORTED;
    return (xa_offset) (after.st_blocks - before.st_blocks) * 512 < missing ? XA_UNSUPPORTED : 0;
}
#else
static inline int xa_lengthen(int fd, xa_offset offset, xa_offset length) {
    int failure;
    do failure = posix_fallocate(fd, offset, length); while (failure == EINTR);
    return failure;
}
#endif

/* -- locks -------------------------------------------------------------------------------------- */

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

static inline void xa_mutex_init(xa_mutex *mutex) { (void) pthread_mutex_init(mutex, NULL); }
static inline void xa_mutex_lock(xa_mutex *mutex) { (void) pthread_mutex_lock(mutex); }
static inline void xa_mutex_unlock(xa_mutex *mutex) { (void) pthread_mutex_unlock(mutex); }

/* -- address space ------------------------------------------------------------------------------ */

static inline uint64_t xa_physical_bytes(void) {
#if defined(_SC_PHYS_PAGES)
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (uint64_t) pages * (uint64_t) xa_page_bytes() : 0;
#else
    return 0;
#endif
}

static inline void xa_unmap(char *base, size_t length) { (void) munmap(base, length); }

static inline char *xa_keep_free(size_t length, size_t alignment) {
    char *base = mmap(NULL, length + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t head;
    if (base == (char *) MAP_FAILED) return NULL;
    head = -(size_t) base & (alignment - 1);
    if (head) xa_unmap(base, head);
    if (alignment - head) xa_unmap(base + head + length, alignment - head);
    return base + head;
}

static inline long xa_map_bytes(void) { return xa_page_bytes(); }

static inline char *xa_map_file(char *at, size_t length, int fd, xa_offset offset, int writable) {
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    int flags = MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0);
    void *base = mmap(at, length, protection, flags, fd, offset);
    return base == MAP_FAILED ? NULL : (char *) base;
}

#define XA_MAPS_FREELY 1
/* Bytes of a usual window. */
#define XA_WINDOW_BYTES ((size_t) 1 << 36)
static inline char *xa_keep_window(size_t length, size_t alignment) {
    return xa_keep_free(length, alignment);
}
static inline int xa_show_file(char *window, size_t length, size_t *shown, size_t least, int fd,
                               xa_offset offset, int writable) {
    (void) window; (void) length; (void) shown; (void) least; (void) fd; (void) offset; (void) writable;
    return 0;
}
static inline int xa_write_views(char *window, size_t length) {
    (void) window; (void) length;
    return 0;
}

/* Memory takes no space before its first use, so open as much as huge pages need. */
static inline size_t xa_memory_bytes(void) { return (size_t) 1 << 21; }
static inline int xa_open_memory(char *base, size_t length) {
    return mprotect(base, length, PROT_READ | PROT_WRITE) ? errno : 0;
}

static inline void xa_cover(char *base, size_t length) {
    /* This fails only if the system has no room for one more mapping.  Then the file's pages stay,
     * and a load from them ends as if another program had cut the file. */
    (void) mmap(base, length, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static inline void xa_discard(char *base, size_t length) {
#if defined(__linux__)
    if (madvise(base, length, MADV_DONTNEED) == 0) return;
#endif
    memset(base, 0, length);
}

static inline int xa_populate(char *base, size_t length, int store) {
#if defined(__linux__)
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
    while (madvise(base, length, store ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
        if (errno != EINTR) return errno == EINVAL ? XA_UNSUPPORTED : errno;
    return 0;
#else
    (void) base; (void) length; (void) store;
    return XA_UNSUPPORTED;
#endif
}

static inline void xa_bring(char *base, size_t length) { (void) madvise(base, length, MADV_WILLNEED); }

static inline void xa_give_back(char *base, size_t length) {
#if defined(__linux__)
    (void) madvise(base, length, MADV_DONTNEED);
#else
    (void) base; (void) length;
#endif
}

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

/* Linux can since 5.18. */
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

static inline int xa_make_thread_key(xa_thread_key *key, void (*at_end)(void *)) {
    return pthread_key_create(key, at_end);
}
static inline void xa_set_thread_value(xa_thread_key key, void *value) {
    (void) pthread_setspecific(key, value);
}

static inline void xa_once(xa_once_t *once, void (*function)(void)) { (void) pthread_once(once, function); }

static inline int xa_in_forked_children(void (*function)(void)) {
    return pthread_atfork(NULL, NULL, function);
}

static inline void xa_yield(void) { (void) sched_yield(); }

/* -- the processor ------------------------------------------------------------------------------ */

static inline unsigned long xa_processor_features(void) {
#if defined(__linux__)
    return getauxval(AT_HWCAP);
#else
    return 0;
#endif
}

#endif
