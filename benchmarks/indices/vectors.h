/* Records of each axis in an array: what the structures without trees have in common. */

#include "record.h"

/* Room for one item more than n; NULL (and nothing has changed) where there is no memory. */
static inline void *with_room(void *items, size_t n, size_t *capacity, size_t bytes)
{
    if (n < *capacity)
        return items;
    size_t wanted = n < 4 ? 4 : 2 * n;
    void *larger = realloc(items, wanted * bytes);
    if (larger != NULL)
        *capacity = wanted;
    return larger;
}

/* Records with their keys, both in arrays. */
typedef struct {
    size_t n;
    size_t room[3];
    int64_t *start_indices;
    int64_t *start_addresses;
    char *records;
} vector_t;

static int vector_add(vector_t *v, const record_t *record, size_t bytes)
{
    int64_t *indices = with_room(v->start_indices, v->n, &v->room[0], sizeof(int64_t));
    if (indices == NULL)
        return -1;
    v->start_indices = indices;
    int64_t *addresses = with_room(v->start_addresses, v->n, &v->room[1], sizeof(int64_t));
    if (addresses == NULL)
        return -1;
    v->start_addresses = addresses;
    char *records = with_room(v->records, v->n, &v->room[2], bytes);
    if (records == NULL)
        return -1;
    v->records = records;
    indices[v->n] = record->start_index;
    addresses[v->n] = record->start_address;
    memcpy(records + v->n * bytes, record, bytes);
    v->n++;
    return 0;
}

typedef struct {
    int ndim;
    size_t bytes;
    vector_t axes[MAX_NDIM];
} index_t;

/* Of the records of all axes that start at or before an address, the one that starts last: a binary
 * search an axis. */
static inline const record_t *index_at(const index_t *x, int64_t address)
{
    const record_t *latest = NULL;
    for (int j = 0; j < x->ndim; j++) {
        const vector_t *v = &x->axes[j];
        size_t i = last_not_above(v->start_addresses, v->n, address);
        const record_t *record = record_at(v->records, i, x->bytes);
        if (latest == NULL || record->start_address > latest->start_address)
            latest = record;
    }
    return latest;
}

static size_t index_bytes(const index_t *x)
{
    size_t total = 0;
    for (int j = 0; j < x->ndim; j++)
        total += x->axes[j].n * (2 * sizeof(int64_t) + x->bytes);
    return total;
}

static int index_depth(const index_t *x)
{
    (void)x;
    return 1;
}

static void index_free(index_t *x)
{
    for (int j = 0; j < x->ndim; j++) {
        free(x->axes[j].start_indices);
        free(x->axes[j].start_addresses);
        free(x->axes[j].records);
    }
}
