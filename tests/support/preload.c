/* Stands between a process and the system, for the files of one folder (LD_PRELOAD, Linux).
 *
 * One call can be made to fail, to do half of its work, or to be the last of the process; and all
 * calls that change files can be recorded.  A page of memory, shared with every process that has
 * opened the file PRELOAD_CONTROL, gives the orders; tests/support/preload.py is its other side.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A fault is an errno or one of these. */
enum { HALF = 1000, KILL_BEFORE, KILL_HALF, KILL_AFTER, NOTHING_DONE, WAIT, NO_SPACE, NOT_ZEROED, LOOK };

struct control {
    int64_t countdown;  /* calls until the fault; 0: none */
    int64_t fault;
    int64_t fired;      /* faults so far */
    int64_t quick;      /* nothing waits for the disk */
    int64_t log;        /* descriptor for records, or -1 */
    int64_t released;   /* waiting calls may continue */
    char name[24];      /* the call that met the last fault */
};

struct record {
    char name[16];
    uint64_t inode;
    int64_t offset, length, bytes;  /* `bytes` of data or names follow */
};

static struct control *control;
static char folder[PATH_MAX];
static size_t folder_length;

__attribute__((constructor)) static void begin(void) {
    const char *place = getenv("PRELOAD_CONTROL"), *name = getenv("PRELOAD_FOLDER");
    int fd = place ? (int) syscall(SYS_openat, AT_FDCWD, place, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || !name || !realpath(name, folder)) return;
    folder_length = strlen(folder);
    void *page = (void *) syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED) control = page;
    syscall(SYS_close, fd);
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name)) dlsym(RTLD_NEXT, #name)

static int inside(const char *path) {
    return control && path && !strncmp(path, folder, folder_length)
        && (path[folder_length] == '/' || !path[folder_length]);
}

static int watched(int fd) {
    char link[64] = "/proc/self/fd/", target[PATH_MAX], digits[12];
    int n = 0;
    ssize_t length;
    if (!control || fd < 0) return 0;
    do digits[n++] = (char) ('0' + fd % 10); while (fd /= 10);
    char *end = link + strlen(link);
    while (n) *end++ = digits[--n];
    *end = 0;
    length = readlink(link, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = 0;
    return inside(target);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Wait until the controlling process has looked at the files. */
static void be_seen(void) {
    int before = errno;
    __atomic_store_n(&control->released, 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&control->fired, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&control->released, __ATOMIC_SEQ_CST)) usleep(50);
    errno = before;
}

/* The fault that a call meets, or 0. */
static int meet(const char *name) {
    if (control->fault == LOOK) {
        if (!control->countdown) return 0;
        memset(control->name, 0, sizeof control->name);
        strncpy(control->name, name, sizeof control->name - 1);
        be_seen();
        return LOOK;
    }
    if (control->fault == NO_SPACE) {       /* every time, like a system without these calls */
        if (!control->countdown || !strstr(name, "fallocate")) return 0;
        control->fired++;
        return EOPNOTSUPP;
    }
    if (control->fault == NOT_ZEROED) return 0;     /* see `taken` */
    if (control->fault == WAIT && strcmp(name, "fallocate")) return 0;
    if (control->countdown <= 0 || __atomic_sub_fetch(&control->countdown, 1, __ATOMIC_SEQ_CST))
        return 0;
    strncpy(control->name, name, sizeof control->name - 1);
    control->fired++;
    if (control->fault == KILL_BEFORE) die();
    while (control->fault == WAIT && !__atomic_load_n(&control->released, __ATOMIC_SEQ_CST)) usleep(1000);
    return (int) control->fault;
}

static int fails(int fault, int interruptible) {
    if (fault <= 0 || fault >= HALF || (fault == EINTR && !interruptible)) return 0;
    errno = fault;
    return 1;
}

/* Half of a transfer.  The system splits transfers between pages, so never within an element. */
static size_t share(int fault, size_t n) {
    if (fault == NOTHING_DONE) return 0;
    return (fault == HALF || fault == KILL_HALF) && n > 8 ? (n / 2 + 7) & ~(size_t) 7 : n;
}


static void note(const char *name, int fd, int64_t offset, int64_t length, const void *data, size_t n) {
    struct record record = {.offset = offset, .length = length, .bytes = (int64_t) n};
    struct stat about;
    int before = errno;
    if (control->log < 0) return;
    strncpy(record.name, name, sizeof record.name - 1);
    if (fd >= 0 && !fstat(fd, &about)) record.inode = about.st_ino;
    /* Write in one piece, as several processes may record to one file. */
    struct iovec pieces[] = {{&record, sizeof record}, {(void *) data, n}};
    ssize_t done = syscall(SYS_writev, (int) control->log, pieces, 2);
    if (done != (ssize_t) (sizeof record + n)) abort();
    errno = before;
}

static void note_names(const char *name, const char *a, const char *b) {
    char names[2 * PATH_MAX];
    size_t n = strlen(a) + 1, m = b ? strlen(b) + 1 : 0;
    memcpy(names, a, n);
    if (b) memcpy(names + n, b, m);
    note(name, -1, 0, 0, names, n + m);
}

static void after(int fault) {
    if (fault == KILL_HALF || fault == KILL_AFTER) die();
    if (fault == LOOK) be_seen();
}

/* -- opening and names ------------------------------------------------------------------------ */

#define OPEN(NAME, FIRST, PASS) \
    int NAME(FIRST const char *path, int flags, ...) { \
        int mode = 0, fault = 0, is_inside = inside(path), fd; \
        va_list rest; \
        REAL(NAME); \
        va_start(rest, flags); \
        if (flags & (O_CREAT | __O_TMPFILE)) mode = va_arg(rest, int); \
        va_end(rest); \
        if (!is_inside) return real(PASS path, flags, mode); \
        fault = meet("open"); \
        if (fails(fault, 1)) return -1; \
        fd = real(PASS path, flags, mode); \
        if (fd >= 0 && flags & O_CREAT) note("create", fd, 0, 0, path, strlen(path) + 1); \
        after(fault); \
        return fd; \
    }
#define NOTHING
#define FOLDER int at,
#define AT at,
OPEN(open, NOTHING, NOTHING)
OPEN(open64, NOTHING, NOTHING)
OPEN(openat, FOLDER, AT)
OPEN(openat64, FOLDER, AT)

#define NAMES(NAME, WHAT, ARGUMENTS, PASS, A, B) \
    int NAME ARGUMENTS { \
        int fault, done; \
        REAL(NAME); \
        if (!inside(A)) return real PASS; \
        fault = meet(WHAT); \
        if (fails(fault, 0)) return -1; \
        done = real PASS; \
        if (!done) note_names(WHAT, A, B); \
        after(fault); \
        return done; \
    }
NAMES(rename, "rename", (const char *a, const char *b), (a, b), a, b)
NAMES(link, "link", (const char *a, const char *b), (a, b), a, b)
NAMES(unlink, "unlink", (const char *a), (a), a, NULL)
NAMES(mkdir, "mkdir", (const char *a, mode_t m), (a, m), a, NULL)
NAMES(rmdir, "rmdir", (const char *a), (a), a, NULL)
NAMES(renameat, "rename", (int i, const char *a, int j, const char *b), (i, a, j, b), a, b)
NAMES(linkat, "link", (int i, const char *a, int j, const char *b, int f), (i, a, j, b, f), a, b)
NAMES(unlinkat, "unlink", (int i, const char *a, int f), (i, a, f), a, NULL)
NAMES(renameat2, f & RENAME_EXCHANGE ? "exchange" : "rename",
    (int i, const char *a, int j, const char *b, unsigned f), (i, a, j, b, f), a, b)

/* -- links and permissions, which are not recorded --------------------------------------------- */

#define CHANGES(NAME, ARGUMENTS, PASS, PLACE) \
    int NAME ARGUMENTS { \
        int fault, done; \
        REAL(NAME); \
        if (!(PLACE)) return real PASS; \
        fault = meet(#NAME); \
        if (fails(fault, 0)) return -1; \
        done = real PASS; \
        after(fault); \
        return done; \
    }
CHANGES(symlink, (const char *a, const char *b), (a, b), inside(b))
CHANGES(fchmod, (int fd, mode_t m), (fd, m), watched(fd))
CHANGES(fchown, (int fd, uid_t u, gid_t g), (fd, u, g), watched(fd))
CHANGES(truncate, (const char *a, off_t n), (a, n), inside(a))
CHANGES(truncate64, (const char *a, off64_t n), (a, n), inside(a))

/* -- bytes ------------------------------------------------------------------------------------ */

#define WRITE(NAME, TYPE) \
    ssize_t NAME(int fd, const void *data, size_t n, TYPE offset) { \
        int fault; \
        ssize_t done; \
        REAL(NAME); \
        if (!watched(fd)) return real(fd, data, n, offset); \
        fault = meet("pwrite"); \
        if (fails(fault, 1)) return -1; \
        done = real(fd, data, share(fault, n), offset); \
        if (done > 0) note("pwrite", fd, offset, done, data, (size_t) done); \
        after(fault); \
        return done; \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *data, size_t n) {
    int fault;
    ssize_t done;
    REAL(write);
    if (!watched(fd)) return real(fd, data, n);
    fault = meet("write");
    if (fails(fault, 1)) return -1;
    done = real(fd, data, share(fault, n));
    if (done > 0) note("pwrite", fd, lseek(fd, 0, SEEK_CUR) - done, done, data, (size_t) done);
    after(fault);
    return done;
}

/* This call is not recorded, since only copies of files use it. */
ssize_t copy_file_range(int from, off64_t *low, int fd, off64_t *place, size_t n, unsigned flags) {
    int fault;
    ssize_t done;
    REAL(copy_file_range);
    if (!watched(fd)) return real(from, low, fd, place, n, flags);
    fault = meet("copy_file_range");
    if (fails(fault, 1)) return -1;
    done = real(from, low, fd, place, share(fault, n), flags);
    after(fault);
    return done;
}

#define READ(NAME, TYPE) \
    ssize_t NAME(int fd, void *data, size_t n, TYPE offset) { \
        int fault; \
        ssize_t done; \
        REAL(NAME); \
        if (!watched(fd)) return real(fd, data, n, offset); \
        fault = meet("pread"); \
        if (fails(fault, 1)) return -1; \
        done = real(fd, data, share(fault, n), offset); \
        after(fault); \
        return done; \
    }
READ(pread, off_t)
READ(pread64, off64_t)

/* Called by Python's os.preadv; our own calls give one piece. */
#define READ_PIECES(NAME, TYPE) \
    ssize_t NAME(int fd, const struct iovec *pieces, int n, TYPE offset, int flags) { \
        struct iovec first; \
        int fault; \
        ssize_t done; \
        REAL(NAME); \
        if (!watched(fd) || n != 1) return real(fd, pieces, n, offset, flags); \
        fault = meet("pread"); \
        if (fails(fault, 1)) return -1; \
        first.iov_base = pieces->iov_base; \
        first.iov_len = share(fault, pieces->iov_len); \
        done = real(fd, &first, 1, offset, flags); \
        after(fault); \
        return done; \
    }
READ_PIECES(preadv2, off_t)
READ_PIECES(preadv64v2, off64_t)

/* -- length and space ------------------------------------------------------------------------- */

#define CUT(NAME, TYPE) \
    int NAME(int fd, TYPE length) { \
        int fault, done; \
        REAL(NAME); \
        if (!watched(fd)) return real(fd, length); \
        fault = meet("ftruncate"); \
        if (fails(fault, 1)) return -1; \
        done = real(fd, length); \
        if (!done) note("truncate", fd, 0, length, NULL, 0); \
        after(fault); \
        return done; \
    }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

/* The mode that the file system takes instead of the one asked for. */
static int taken(int mode) {
    if (control->fault != NOT_ZEROED || !control->countdown || !(mode & FALLOC_FL_ZERO_RANGE)) return mode;
    control->fired++;
    return mode & FALLOC_FL_KEEP_SIZE;
}

#define SPACE(NAME, TYPE) \
    int NAME(int fd, int mode, TYPE offset, TYPE length) { \
        int fault, done; \
        REAL(NAME); \
        if (!watched(fd)) return real(fd, mode, offset, length); \
        mode = taken(mode); \
        fault = meet("fallocate"); \
        if (fails(fault, 1)) return -1; \
        done = real(fd, mode, offset, length); \
        if (!done && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) \
            note("punch", fd, offset, length, NULL, 0); \
        if (!done && !mode) note("allocate", fd, offset, length, NULL, 0); \
        after(fault); \
        return done; \
    }
SPACE(fallocate, off_t)
SPACE(fallocate64, off64_t)

#define POSIX_SPACE(NAME, TYPE) \
    int NAME(int fd, TYPE offset, TYPE length) { \
        int fault, done; \
        REAL(NAME); \
        if (!watched(fd)) return real(fd, offset, length); \
        fault = meet("posix_fallocate"); \
        if (fails(fault, 1)) return fault; \
        done = real(fd, offset, length); \
        if (!done) note("allocate", fd, offset, length, NULL, 0); \
        after(fault); \
        return done; \
    }
POSIX_SPACE(posix_fallocate, off_t)
POSIX_SPACE(posix_fallocate64, off64_t)

/* -- the disk --------------------------------------------------------------------------------- */

#define SYNC(NAME) \
    int NAME(int fd) { \
        int fault, done = 0; \
        REAL(NAME); \
        if (!watched(fd)) return real(fd); \
        fault = meet(#NAME); \
        if (fails(fault, 1)) return -1; \
        if (!control->quick) done = real(fd); \
        if (!done) note("sync", fd, 0, 0, NULL, 0); \
        after(fault); \
        return done; \
    }
SYNC(fsync)
SYNC(fdatasync)

/* -- mappings, locks, facts ------------------------------------------------------------------- */

#define MAP(NAME, TYPE) \
    void *NAME(void *place, size_t n, int protection, int flags, int fd, TYPE offset) { \
        int fault = watched(fd) ? meet("mmap") : 0; \
        void *done; \
        REAL(NAME); \
        if (fails(fault, 0)) return MAP_FAILED; \
        done = real(place, n, protection, flags, fd, offset); \
        after(fault); \
        return done; \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)

#define LOCK(NAME) \
    int NAME(int fd, int what, ...) { \
        int fault, done; \
        void *argument; \
        va_list rest; \
        REAL(NAME); \
        va_start(rest, what); \
        argument = va_arg(rest, void *); \
        va_end(rest); \
        fault = what != F_GETFD && what != F_SETFD && watched(fd) ? meet("fcntl") : 0; \
        if (fails(fault, what != F_DUPFD_CLOEXEC)) return -1; \
        done = real(fd, what, argument); \
        after(fault); \
        return done; \
    }
LOCK(fcntl)
LOCK(fcntl64)
