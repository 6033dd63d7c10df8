/* How macOS brings files to the disk, compiled on another system: the commands are macOS' own, and
 * calls go to a function that the test sets. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define F_FULLFSYNC 51
#define F_BARRIERFSYNC 85

/* Answers a command, 0 for fsync, with an errno. */
static int (*answer)(int command);

static int answered(int command) {
    errno = answer(command);
    return errno ? -1 : 0;
}
static int told_fcntl(int fd, int command, ...) { (void) fd; return answered(command); }
static int told_fsync(int fd) { (void) fd; return answered(0); }

#define fcntl told_fcntl
#define fsync told_fsync
#include "_system.h"

void set_answer(int (*function)(int)) { answer = function; }
int datasync(int fd) { return xa_datasync(fd); }
int barrier(int fd) { return xa_barrier(fd); }
int has_barrier(void) { return XA_HAS_BARRIER; }
