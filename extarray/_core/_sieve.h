/* Leave to write back the gaps between elements; see `Sieve` in _file.pyx. */

#ifndef XA_SIEVE_H
#define XA_SIEVE_H

#include "_system.h"

/* Locks shared out among the chunks, and the number of this process's transfers that use the
 * leave. */
#define XA_CHUNK_LOCKS 64
typedef struct {
    xa_mutex chunk[XA_CHUNK_LOCKS];
    xa_mutex counting;
    int n_users;
    int is_over;
} xa_sieve;

static inline void xa_sieve_init(xa_sieve *s) {
    for (int i = 0; i < XA_CHUNK_LOCKS; i++) xa_mutex_init(&s->chunk[i]);
    xa_mutex_init(&s->counting);
    s->n_users = 0;
    s->is_over = 0;
}

static inline int xa_is_over(xa_sieve *s) { return __atomic_load_n(&s->is_over, __ATOMIC_SEQ_CST); }

static inline void xa_lock_chunk(xa_sieve *s, int64_t address) {
    xa_mutex_lock(&s->chunk[(uint64_t) address % XA_CHUNK_LOCKS]);
}
static inline void xa_unlock_chunk(xa_sieve *s, int64_t address) {
    xa_mutex_unlock(&s->chunk[(uint64_t) address % XA_CHUNK_LOCKS]);
}

static inline void xa_end_sieving(xa_sieve *s, int fd, int64_t byte) {
    xa_mutex_lock(&s->counting);
    if (--s->n_users == 0) xa_drop_leave(fd, byte);
    xa_mutex_unlock(&s->counting);
}
/* Whether the leave is given, until `xa_end_sieving`. */
static inline int xa_begin_sieving(xa_sieve *s, int fd, int64_t byte) {
    int given;
    xa_mutex_lock(&s->counting);
    given = !xa_is_over(s) && (s->n_users > 0 || xa_take_leave(fd, byte));
    if (given && !xa_is_alone(fd, byte)) {
        if (s->n_users == 0) xa_drop_leave(fd, byte);
        given = 0;
    }
    s->n_users += given;
    xa_mutex_unlock(&s->counting);
    return given;
}

/* Refuse the leave from now on, and wait for transfers between a read and its write. */
static inline void xa_stop_sieving(xa_sieve *s) {
    __atomic_store_n(&s->is_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < XA_CHUNK_LOCKS; i++) {
        xa_mutex_lock(&s->chunk[i]);
        xa_mutex_unlock(&s->chunk[i]);
    }
}

#endif
