/* What threads change beside each other.
 *
 * With the GIL only one of them is between two calls of Python, so most of this costs nothing: locks
 * are none, and numbers are plain.  Without it (Py_GIL_DISABLED) they are locks and atomics.
 */

#ifndef EXTARRAY_SHARED_H
#define EXTARRAY_SHARED_H

/* Of threads that have let go of the GIL: what a counter was, and a number that the last one notes. */
#define xa_take_next(p) __atomic_fetch_add((p), 1, __ATOMIC_SEQ_CST)
#define xa_note(p, n) __atomic_store_n((p), (n), __ATOMIC_SEQ_CST)

#ifdef Py_GIL_DISABLED

#define XA_FREE_THREADS 1

/* Held for a few instructions, which run no Python: so no thread waits for itself, nor for one that
 * the interpreter has stopped. */
typedef PyMutex xa_lock_t;
#define xa_lock(lock) PyMutex_Lock(lock)
#define xa_unlock(lock) PyMutex_Unlock(lock)
#define xa_make_lock(lock) ((void) (*(lock) = (PyMutex) {0}))

#define xa_number(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define xa_add(p, n) ((void) __atomic_fetch_add((p), (n), __ATOMIC_SEQ_CST))
#define xa_less_one(p) __atomic_sub_fetch((p), 1, __ATOMIC_SEQ_CST)
/* A hint, which may be an older one. */
#define xa_hint(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define xa_set_hint(p, n) __atomic_store_n((p), (n), __ATOMIC_RELAXED)
/* What was stored before is seen by who is past his own fence, or his is by what is loaded behind. */
#define xa_fence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define xa_shown(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define xa_show(p, address) __atomic_store_n((p), (address), __ATOMIC_SEQ_CST)
/* Between the count of an object's references, which threads take turns at, and what they read of it:
 * no line of a cache has both, nor a pair of lines that is fetched together. */
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
