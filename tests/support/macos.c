/* Calls of macOS, compiled on another system: the commands are macOS' own, and a function that the
 * test sets answers them.  Where it lets them succeed, the other system does what they ask. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define F_PREALLOCATE 42
#define F_FULLFSYNC 51
#define F_BARRIERFSYNC 85
#define F_PUNCHHOLE 99

#define F_ALLOCATEALL 4
#define F_PEOFPOSMODE 3
typedef struct fstore {
    unsigned int fst_flags;
    int fst_posmode;
    off_t fst_offset, fst_length, fst_bytesalloc;
} fstore_t;
typedef struct fpunchhole {
    unsigned int fp_flags, reserved;
    off_t fp_offset, fp_length;
} fpunchhole_t;

enum { BLOCK = 4096, GIVES_LESS = 1000, GIVES_NOTHING };

/* Answers a command, 0 for fsync, with an errno, or so that it does less than it says. */
static int (*answer)(int command);

static int made_hole(int fd, const fpunchhole_t *hole) {
    if (hole->fp_flags || hole->reserved || hole->fp_offset % BLOCK || hole->fp_length % BLOCK)
        return EINVAL;
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole->fp_offset, hole->fp_length)
        ? errno : 0;
}

static int allocated(int fd, fstore_t *wanted, int said) {
    struct stat about;
    off_t end;
    if (wanted->fst_flags != F_ALLOCATEALL || wanted->fst_posmode != F_PEOFPOSMODE || wanted->fst_offset
        || wanted->fst_length <= 0)
        return EINVAL;
    if (fstat(fd, &about)) return errno;
    end = (about.st_size + BLOCK - 1) / BLOCK * BLOCK;
    wanted->fst_bytesalloc = wanted->fst_length - (said == GIVES_LESS ? BLOCK : 0);
    if (said == GIVES_NOTHING) return 0;
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, end, wanted->fst_length) ? errno : 0;
}

static int told_fcntl(int fd, int command, ...) {
    int said = answer ? answer(command) : 0;
    va_list rest;
    va_start(rest, command);
    if (command == F_PUNCHHOLE && said == 0) said = made_hole(fd, va_arg(rest, fpunchhole_t *));
    else if (command == F_PREALLOCATE && (said == 0 || said >= GIVES_LESS))
        said = allocated(fd, va_arg(rest, fstore_t *), said);
    va_end(rest);
    errno = said;
    return said ? -1 : 0;
}
static int told_fsync(int fd) {
    (void) fd;
    errno = answer ? answer(0) : 0;
    return errno ? -1 : 0;
}

#define fcntl told_fcntl
#define fsync told_fsync
#include "_system.h"

void set_answer(int (*function)(int)) { answer = function; }
int datasync(int fd) { return xa_datasync(fd); }
int barrier(int fd) { return xa_barrier(fd); }
int has_barrier(void) { return XA_HAS_BARRIER; }
int punch(int fd, int64_t offset, int64_t length) { return xa_punch(fd, offset, length); }
int lengthen(int fd, int64_t offset, int64_t length) { return xa_lengthen(fd, offset, length); }
