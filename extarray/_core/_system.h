/* Every operating system call that compiled code makes: files, mappings, locks, threads.
 *
 * Other C and Cython code includes this and names no header, call or flag of a system.
 * `_system_posix.h` and `_system_windows.h` implement the interface below; the compiler compares
 * them with it.  `extarray.common.system` is the Python counterpart.
 *
 * Functions return 0 or an errno unless they say otherwise.  All errnos are numbers that Python's
 * module `errno` has for the same name; XA_UNSUPPORTED means that the system or the file system has
 * no such call.
 */

#ifndef XA_SYSTEM_H
#define XA_SYSTEM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Python on Windows gives EOPNOTSUPP another number than C, and macOS distinguishes the two. */
#define XA_UNSUPPORTED ENOTSUP

typedef int64_t xa_offset;

#if defined(_WIN32)
#include "_system_windows.h"
#else
#include "_system_posix.h"
#endif

/* -- bytes of a file ---------------------------------------------------------------------------- */

/* Bytes moved, perhaps fewer than asked for, or -1 with errno set.  Reads return 0 at the end. */
static inline ptrdiff_t xa_read_at(int fd, void *to, size_t n, xa_offset offset);
static inline ptrdiff_t xa_write_at(int fd, const void *from, size_t n, xa_offset offset);

static inline int xa_length(int fd, int64_t *length);
/* The length that the server knows, where the system may remember an older one of its own. */
static inline int xa_length_now(int fd, int64_t *length);
/* Cut a file, or lengthen it by zeros, which are a hole where the file system has holes. */
static inline int xa_set_length(int fd, xa_offset length);

static inline void xa_close(int fd);

/* The unit of protection, and of the system's cache of files. */
static inline long xa_page_bytes(void);

/* Bring a file's bytes to the disk, with the metadata needed to read them. */
static inline int xa_datasync(int fd);
/* Keep later writes, to any file of this disk, from reaching it before the bytes of this file.
 * XA_HAS_BARRIER: this is cheaper than to wait for the disk. */
static inline int xa_barrier(int fd);

/* -- file systems and disk space ---------------------------------------------------------------- */

/* The number of a type of file system, as Linux numbers them (statfs); 0: not known. */
static inline int64_t xa_filesystem(int fd);

/* The generation of a file among those with its inode number; 0 if unknown. */
static inline int64_t xa_generation(int fd);

/* Whether the whole disk is known to be smaller than this.  Some file systems would fill up before
 * they report it, and stay full.  Do not call it below 1 GiB: so small a disk soon fills and
 * empties anyway. */
static inline int xa_exceeds_disk(int fd, xa_offset length);

/* Allocate disk space for a range, which keeps its content; the file keeps its length. */
static inline int xa_reserve(int fd, xa_offset offset, xa_offset length);
/* Turn the whole pages of a range into a hole. */
static inline int xa_punch(int fd, xa_offset offset, xa_offset length);
/* Zero a range, which keeps its space. */
static inline int xa_zero(int fd, xa_offset offset, xa_offset length);
/* Lengthen a file by allocated bytes, which read as zeros. */
static inline int xa_lengthen(int fd, xa_offset offset, xa_offset length);

/* -- the system's cache of files: advice, which may do nothing ----------------------------------- */

/* Whether a byte of a file is (or may be) in the cache. */
static inline int xa_is_cached(int fd, xa_offset offset);
/* Drop bytes of a file (`length` 0: up to its end), so that the next read asks the server. */
static inline void xa_forget(int fd, xa_offset offset, xa_offset length);
/* Begin to bring bytes of a file: these pages, and none around them. */
static inline void xa_ask_for(int fd, xa_offset offset, xa_offset length);
/* Begin to write dirty pages of a range (`length` 0: up to the file's end); with `wait`, wait until
 * they are written. */
static inline void xa_write_back(int fd, xa_offset offset, xa_offset length, int wait);

/* -- locks -------------------------------------------------------------------------------------- */

/* A writer has the leave to write back gaps between elements (`_sieve.h`) while it locks one byte
 * of the file and nobody shares the lock on the next: a concurrent writer of elements locks that
 * first, then waits for the other byte.  The lock belongs to the open file. */
static inline int xa_take_leave(int fd, int64_t byte);  /* whether it was free */
static inline int xa_is_alone(int fd, int64_t byte);    /* whether nobody shares the next byte */
static inline void xa_drop_leave(int fd, int64_t byte);

/* Mutual exclusion of threads. */
static inline void xa_mutex_init(xa_mutex *mutex);
static inline void xa_mutex_lock(xa_mutex *mutex);
static inline void xa_mutex_unlock(xa_mutex *mutex);

/* -- address space ------------------------------------------------------------------------------ */

/* Bytes of memory of the machine; 0: unknown. */
static inline uint64_t xa_physical_bytes(void);

/* Reserve address space from a multiple of `alignment` on, which is a power of two, without
 * access; it costs no memory.  NULL: not enough, see errno. */
static inline char *xa_keep_free(size_t length, size_t alignment);

/* Release what the functions around this one returned, as a whole. */
static inline void xa_unmap(char *base, size_t length);

/* The unit of mappings: they begin at multiples of it, in the file as in the address space. */
static inline long xa_map_bytes(void);

/* XA_MAPS_FREELY: a mapping may reach beyond the end of its file, which grows into it, and does not
 * keep anybody from cutting, replacing or removing the file.  Elsewhere the next function maps what
 * the file has, wherever the system likes, and windows show files that grow. */

/* XA_WINDOW_BYTES: how much to reserve for a file, unless it is large. */

/* Map a file into reserved address space `at`, or (NULL) wherever the system likes; NULL: see
 * errno. */
static inline char *xa_map_file(char *at, size_t length, int fd, xa_offset offset, int writable);

/* Reserve address space like `xa_keep_free`, in which to show a file; NULL: see errno, which is
 * XA_UNSUPPORTED if the system can show none. */
static inline char *xa_keep_window(size_t length, size_t alignment);

/* Show at least the first `least` bytes of a file from an offset on, and at most a whole window.
 * `shown` bytes are shown before and after; they stay where they are, without a moment in which a
 * load from them fails.  EAGAIN: only another window can show as many.  ENODATA: the file has
 * fewer.  This does nothing where XA_MAPS_FREELY. */
static inline int xa_show_file(char *window, size_t length, size_t *shown, size_t least, int fd,
                               xa_offset offset, int writable);

/* Hand over to the system's cache of files, and write, the stores to a window.  This does nothing
 * where XA_MAPS_FREELY, since `xa_datasync` finds them. */
static inline int xa_write_views(char *window, size_t length);

/* The unit in which to back address space with memory. */
static inline size_t xa_memory_bytes(void);
/* Back reserved address space with zeroed memory. */
static inline int xa_open_memory(char *base, size_t length);

/* Show private zeroed memory instead of a mapped file.  This does nothing unless XA_MAPS_FREELY:
 * there a file keeps the bytes that a window shows. */
static inline void xa_cover(char *base, size_t length);

/* Zero whole pages of private memory, and return them to the system. */
static inline void xa_discard(char *base, size_t length);

/* Map pages of a file.  An errno means that a load (or, with `store`, a store) would fail, which
 * ends the process. */
static inline int xa_populate(char *base, size_t length, int store);

/* The rest is advice: if the system takes none, everything works, but slower. */

/* Bring these pages of a mapped file into the system's cache, and none around them. */
static inline void xa_bring(char *base, size_t length);
/* Remove pages of a mapped file from the resident set; they stay in the system's cache. */
static inline void xa_give_back(char *base, size_t length);
/* Make a fault bring only its own page. */
static inline void xa_advise_scattered(char *base, size_t length);
static inline void xa_advise_huge(char *base, size_t length);
/* Whether a fault on a scattered mapping can bring just one huge page. */
static inline int xa_brings_huge_pages(void);

/* Allocate memory for `free`, in huge pages if large: faults on a large table otherwise cost more
 * than all work on it.  NULL: no memory. */
static inline void *xa_allocate(size_t bytes);

/* -- threads ------------------------------------------------------------------------------------ */

/* Register a function to call with a thread's value when the thread ends. */
static inline int xa_make_thread_key(xa_thread_key *key, void (*at_end)(void *));
static inline void xa_set_thread_value(xa_thread_key key, void *value);

/* Call a function once in the process; `once` begins as XA_ONCE_INIT. */
static inline void xa_once(xa_once_t *once, void (*function)(void));

/* Register a function to call in each forked child. */
static inline int xa_in_forked_children(void (*function)(void));

/* Let other threads run. */
static inline void xa_yield(void);

/* -- the processor ------------------------------------------------------------------------------ */

/* Features of an ARM processor, as Linux numbers them (AT_HWCAP); 0: unknown. */
static inline unsigned long xa_processor_features(void);

#endif
