/* Variables that threads change concurrently.
 *
 * With the GIL only one thread runs between two Python calls, so most of this costs nothing: there
 * are no locks, and numbers are plain.  Without it (Py_GIL_DISABLED) they are locks and atomics.
 */

#ifndef EXTARRAY_SHARED_H
#define EXTARRAY_SHARED_H

/* For threads that have released the GIL: a counter's value before it is raised, and a number where
 * the last store wins. */
#define xa_take_next(p) __atomic_fetch_add((p), 1, __ATOMIC_SEQ_CST)
#define xa_note(p, n) __atomic_store_n((p), (n), __ATOMIC_SEQ_CST)

#ifdef Py_GIL_DISABLED

#define XA_FREE_THREADS 1

/* Held for a few instructions that run no Python: so no thread waits for itself, nor for one that
 * the interpreter has stopped. */
typedef PyMutex xa_lock_t;
#define xa_lock(lock) PyMutex_Lock(lock)
#define xa_unlock(lock) PyMutex_Unlock(lock)
#define xa_make_lock(lock) ((void) (*(lock) = (PyMutex) {0}))

#define xa_number(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define xa_add(p, n) ((void) __atomic_fetch_add((p), (n), __ATOMIC_SEQ_CST))
#define xa_less_one(p) __atomic_sub_fetch((p), 1, __ATOMIC_SEQ_CST)
/* A hint, which may be out of date. */
#define xa_hint(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define xa_set_hint(p, n) __atomic_store_n((p), (n), __ATOMIC_RELAXED)
/* Stores before this fence are seen by a thread past its own fence, or that thread's stores by the
 * loads after this one. */
#define xa_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define xa_shown(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define xa_show(p, address) __atomic_store_n((p), (address), __ATOMIC_SEQ_CST)
/* Padding between an object's reference count, which threads contend for, and the fields that they
 * read: the two share no cache line, nor a pair of lines that is fetched together. */
typedef struct { char bytes[128]; } xa_apart_t;

#else

#define XA_FREE_THREADS 0

typedef char xa_lock_t;
#define xa_lock(lock) ((void) (lock))
#define xa_unlock(lock) ((void) (lock))
#define xa_make_lock(lock) ((void) (lock))

#define xa_number(p) (*(p))
#define xa_add(p, n) ((void) (*(p) += (n)))
#define xa_less_one(p) (--*(p))
#define xa_hint(p) (*(p))
#define xa_set_hint(p, n) ((void) (*(p) = (n)))
#define xa_fence() ((void) 0)
#define xa_shown(p) (*(p))
#define xa_show(p, address) ((void) (*(p) = (address)))
typedef struct { } xa_apart_t;

#endif

#endif
