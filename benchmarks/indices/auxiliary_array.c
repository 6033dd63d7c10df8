/* The auxiliary array of Otoo and Merrett: a record for every chunk index of an axis, found at once.
 * A growth by some chunks notes its record as many times. */

#include "vectors.h"

static int index_add(index_t *x, int axis, const record_t *record, int64_t by)
{
    for (int64_t i = 0; i < by; i++)
        if (vector_add(&x->axes[axis], record, x->bytes))
            return -1;
    return 0;
}

static int index_lengthen(index_t *x, int axis, int64_t by)
{
    const vector_t *v = &x->axes[axis];
    room_t last; /* a copy: adding may move the records */
    memcpy(&last, record_at(v->records, v->n - 1, x->bytes), x->bytes);
    return index_add(x, axis, &last.record, by);
}

static inline const record_t *index_of(const index_t *x, int axis, int64_t i)
{
    return record_at(x->axes[axis].records, (size_t)i, x->bytes);
}

static size_t index_starts(const index_t *x, int axis, int64_t *out)
{
    const vector_t *v = &x->axes[axis];
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (i == 0 || v->start_indices[i] != v->start_indices[i - 1])
            out[n++] = v->start_indices[i];
    return n;
}

#include "mapping.h"
