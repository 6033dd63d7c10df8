/* The mapping F*, its inverse and growth, over an index structure.
 *
 * The file of a structure includes this one at its end. Before, it defines index_t and:
 *
 * index_add       notes the record of a growth by some chunks
 * index_lengthen  notes that the last record of an axis has gained some chunks
 * index_of        the record that introduced a chunk index of an axis
 * index_at        the record of the segment that has an address
 * index_starts    the start indices of the records of an axis in order, and how many there are
 * index_bytes, index_depth, index_free
 *
 * An index_t of zeros is empty but for `ndim` and `bytes` (of a record), which are set here.
 * What is not static is for Python. Products of extents must stay below 2^63. */

#include "record.h"

typedef struct {
    int last; /* the axis that grew last */
    int64_t extents[MAX_NDIM];
    index_t index;
} mapping_t;

void mapping_free(mapping_t *m)
{
    if (m != NULL)
        index_free(&m->index);
    free(m);
}

/* Begin a segment of an axis. */
static int add_segment(mapping_t *m, int axis, int64_t by)
{
    room_t room;
    record_t *record = &room.record;
    int64_t run = 1;
    for (int j = m->index.ndim - 1; j >= 0; j--)
        if (j != axis) {
            record->coefficients[j] = run;
            run *= m->extents[j];
        }
    record->axis = axis;
    record->coefficients[axis] = run;
    record->start_index = m->extents[axis];
    record->start_address = run * m->extents[axis];
    return index_add(&m->index, axis, record, by);
}

mapping_t *mapping_new(int ndim, const int64_t *grid)
{
    mapping_t *m = calloc(1, sizeof(mapping_t));
    if (m == NULL)
        return NULL;
    m->index.ndim = ndim;
    m->index.bytes = record_bytes(ndim);
    /* The initial segment is a growth of axis 0 from nothing. */
    memcpy(m->extents, grid, (size_t)ndim * sizeof(int64_t));
    m->extents[0] = 0;
    int failed = add_segment(m, 0, grid[0]);
    m->extents[0] = grid[0];
    for (int j = 1; j < ndim && !failed; j++) {
        room_t null = {.record = {j, 0, -1}};
        failed = index_add(&m->index, j, &null.record, grid[j]);
    }
    if (failed) {
        mapping_free(m);
        return NULL;
    }
    return m;
}

/* Grow axes one after the other; returns -1 where there is no memory. */
int mapping_grow(mapping_t *m, const int32_t *axes, const int64_t *by, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int axis = axes[i];
        int failed = axis == m->last ? index_lengthen(&m->index, axis, by[i])
                                     : add_segment(m, axis, by[i]);
        if (failed)
            return -1;
        m->extents[axis] += by[i];
        m->last = axis;
    }
    return 0;
}

/* The look-ups go as those of the package do: in groups, first all records and then what is computed
 * from them, so that many loads are under way at a time; and one function for each small number of
 * axes. */

enum { AT_ONCE = 64 };

#define FOR_EACH_RANK(function, m, ...)                    \
    switch ((m)->index.ndim) {                             \
    case 2: return function(m, 2, __VA_ARGS__);            \
    case 3: return function(m, 3, __VA_ARGS__);            \
    case 4: return function(m, 4, __VA_ARGS__);            \
    default: return function(m, (m)->index.ndim, __VA_ARGS__); \
    }

static inline size_t addresses_of(
    const mapping_t *m, int ndim, const int64_t *indices, size_t n, int64_t *out)
{
    const record_t *owners[AT_ONCE];
    for (size_t done = 0; done < n; done += AT_ONCE, indices += AT_ONCE * ndim) {
        size_t some = n - done < AT_ONCE ? n - done : AT_ONCE;
        for (size_t i = 0; i < some; i++) {
            const int64_t *index = indices + i * ndim;
            const record_t *owner = NULL;
            for (int j = 0; j < ndim; j++) {
                if ((uint64_t)index[j] >= (uint64_t)m->extents[j])
                    return done + i;
                const record_t *record = index_of(&m->index, j, index[j]);
                if (owner == NULL || record->start_address > owner->start_address)
                    owner = record;
            }
            owners[i] = owner;
        }
        for (size_t i = 0; i < some; i++) {
            int64_t address = 0;
            for (int j = 0; j < ndim; j++)
                address += owners[i]->coefficients[j] * indices[i * ndim + j];
            out[done + i] = address;
        }
    }
    return n;
}

/* Addresses of n chunk indices; returns how many lie before the first that is out of bounds. */
size_t mapping_addresses(const mapping_t *m, const int64_t *indices, size_t n, int64_t *out)
{
    FOR_EACH_RANK(addresses_of, m, indices, n, out)
}

static inline size_t indices_of(
    const mapping_t *m, int ndim, const int64_t *addresses, size_t n, int64_t *out)
{
    const record_t *owners[AT_ONCE];
    int64_t size = 1;
    for (int j = 0; j < ndim; j++)
        size *= m->extents[j];
    for (size_t done = 0; done < n; done += AT_ONCE) {
        size_t some = n - done < AT_ONCE ? n - done : AT_ONCE;
        for (size_t i = 0; i < some; i++) {
            if ((uint64_t)addresses[done + i] >= (uint64_t)size)
                return done + i;
            owners[i] = index_at(&m->index, addresses[done + i]);
        }
        for (size_t i = 0; i < some; i++, out += ndim) {
            const record_t *owner = owners[i];
            int axis = (int)owner->axis, last = axis == ndim - 1 ? ndim - 2 : ndim - 1;
            uint64_t rest = (uint64_t)(addresses[done + i] - owner->start_address);
            uint64_t along = (uint64_t)owner->coefficients[axis];
            out[axis] = owner->start_index + (int64_t)(rest / along);
            rest %= along;
            for (int j = 0; j < last; j++)
                if (j != axis) {
                    out[j] = (int64_t)(rest / (uint64_t)owner->coefficients[j]);
                    rest %= (uint64_t)owner->coefficients[j];
                }
            if (ndim > 1) /* of the last other axis the coefficient is 1 */
                out[last] = (int64_t)rest;
        }
    }
    return n;
}

/* Chunk indices of n addresses; returns how many lie before the first that no chunk has. */
size_t mapping_indices(const mapping_t *m, const int64_t *addresses, size_t n, int64_t *out)
{
    FOR_EACH_RANK(indices_of, m, addresses, n, out)
}

/* Start indices of the records of an axis, in order; returns how many there are. */
size_t mapping_starts(const mapping_t *m, int axis, int64_t *out)
{
    return index_starts(&m->index, axis, out);
}

size_t mapping_bytes(const mapping_t *m)
{
    return index_bytes(&m->index);
}

/* Nodes on the longest way to a record. */
int mapping_depth(const mapping_t *m)
{
    return index_depth(&m->index);
}
