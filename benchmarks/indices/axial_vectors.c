/* Axial vectors as the papers have them: the records of an axis in an array, which is searched. */

#include "vectors.h"

static int index_add(index_t *x, int axis, const record_t *record, int64_t by)
{
    (void)by;
    return vector_add(&x->axes[axis], record, x->bytes);
}

static int index_lengthen(index_t *x, int axis, int64_t by)
{
    (void)x, (void)axis, (void)by; /* the last record has no end */
    return 0;
}

static inline const record_t *index_of(const index_t *x, int axis, int64_t i)
{
    const vector_t *v = &x->axes[axis];
    return record_at(v->records, last_not_above(v->start_indices, v->n, i), x->bytes);
}

static size_t index_starts(const index_t *x, int axis, int64_t *out)
{
    const vector_t *v = &x->axes[axis];
    memcpy(out, v->start_indices, v->n * sizeof(int64_t));
    return v->n;
}

#include "mapping.h"
