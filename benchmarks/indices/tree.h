/* A red-black tree whose leaves hold up to BUCKET records each and are linked in order: the O2-Tree,
 * and for one record a leaf the leaf-linked red-black tree.
 *
 * Inner nodes hold keys that separate, and none of the records. Insertion goes from the root down
 * once: it parts nodes with two red children on the way, so that a leaf that overflows finds a black
 * place, and needs neither parents nor a way back. */

#include <stdbool.h>

#include "record.h"

typedef struct node {
    int64_t key; /* of an inner node: the least on its right */
    struct node *child[2];
    bool is_red, is_leaf;
} node_t;

typedef struct leaf {
    node_t node;
    struct leaf *next;
    size_t n;
    int64_t keys[BUCKET];
    char records[];
} leaf_t;

typedef struct {
    node_t *root;
    leaf_t *first;
    size_t bytes;
} tree_t;

static inline bool is_red(const node_t *node)
{
    return node != NULL && node->is_red;
}

/* The record of the greatest key that is not above one. */
static inline const record_t *tree_find(const tree_t *t, int64_t key, size_t bytes)
{
    const node_t *node = t->root;
    while (!node->is_leaf)
        node = node->child[key >= node->key];
    const leaf_t *leaf = (const leaf_t *)node;
    return record_at(leaf->records, last_not_above(leaf->keys, leaf->n, key), bytes);
}

static leaf_t *new_leaf(tree_t *t, size_t bytes)
{
    size_t size = sizeof(leaf_t) + BUCKET * bytes;
    leaf_t *leaf = malloc(size);
    if (leaf == NULL)
        return NULL;
    *leaf = (leaf_t){.node = {.is_leaf = true}};
    t->bytes += size;
    return leaf;
}

/* Move the records from one place on to an empty leaf. */
static void move_tail(leaf_t *from, size_t place, leaf_t *to, size_t bytes)
{
    to->n = from->n - place;
    memcpy(to->keys, from->keys + place, to->n * sizeof(int64_t));
    memcpy(to->records, from->records + place * bytes, to->n * bytes);
    from->n = place;
}

static void put(leaf_t *leaf, size_t place, int64_t key, const record_t *record, size_t bytes)
{
    size_t tail = leaf->n - place;
    char *at = leaf->records + place * bytes;
    memmove(leaf->keys + place + 1, leaf->keys + place, tail * sizeof(int64_t));
    memmove(at + bytes, at, tail * bytes);
    leaf->keys[place] = key;
    memcpy(at, record, bytes);
    leaf->n++;
}

/* Insert into a leaf. One that is full becomes two, and the inner node above them is returned. */
static node_t *leaf_insert(tree_t *t, leaf_t *leaf, int64_t key, const record_t *record, size_t bytes)
{
    size_t place = leaf->n, half = (BUCKET + 1) / 2;
    while (place > 0 && leaf->keys[place - 1] > key)
        place--; /* from the end, as growth adds greater and greater keys */
    if (leaf->n < BUCKET) {
        put(leaf, place, key, record, bytes);
        return &leaf->node;
    }
    leaf_t *right = new_leaf(t, bytes);
    node_t *above = malloc(sizeof(node_t));
    if (right == NULL || above == NULL) {
        free(right);
        free(above);
        return NULL;
    }
    t->bytes += sizeof(node_t);
    if (place < half) {
        move_tail(leaf, half - 1, right, bytes);
        put(leaf, place, key, record, bytes);
    } else {
        move_tail(leaf, half, right, bytes);
        put(right, place - half, key, record, bytes);
    }
    right->next = leaf->next;
    leaf->next = right;
    *above = (node_t){right->keys[0], {&leaf->node, &right->node}, .is_red = true};
    return above;
}

/* Turn a node down to a side; returns the one that takes its place. */
static node_t *rotated(node_t *node, int side)
{
    node_t *up = node->child[!side];
    node->child[!side] = up->child[side];
    up->child[side] = node;
    node->is_red = true;
    up->is_red = false;
    return up;
}

/* Mend a red node with a red child: `below` is the side of the red one, and then of its child. */
static node_t *mended(node_t *top, int side, int below)
{
    if (side != below)
        top->child[side] = rotated(top->child[side], side);
    return rotated(top, !side);
}

static int tree_insert(tree_t *t, int64_t key, const record_t *record, size_t bytes)
{
    if (t->root == NULL) {
        t->first = new_leaf(t, bytes);
        if (t->first == NULL)
            return -1;
        t->root = &t->first->node;
    }
    /* The last four nodes of the way down, from a false root on. */
    node_t head = {.child = {NULL, t->root}};
    node_t *above = &head, *top = NULL, *parent = NULL, *node = t->root;
    int side = 1, last = 1; /* of the node below its parent, of that below the top */
    for (;;) {
        bool is_done = node->is_leaf;
        if (is_done) {
            node_t *grown = leaf_insert(t, (leaf_t *)node, key, record, bytes);
            if (grown == NULL)
                return -1;
            node = (parent == NULL ? &head : parent)->child[side] = grown;
        } else if (is_red(node->child[0]) && is_red(node->child[1])) {
            node->is_red = true;
            node->child[0]->is_red = node->child[1]->is_red = false;
        }
        if (is_red(node) && is_red(parent)) {
            int of_top = above->child[1] == top;
            above->child[of_top] = mended(top, last, side);
        }
        if (is_done)
            break;
        last = side;
        side = key >= node->key;
        if (top != NULL)
            above = top;
        top = parent;
        parent = node;
        node = node->child[side];
    }
    t->root = head.child[1];
    t->root->is_red = false;
    return 0;
}

static int depth_of(const node_t *node)
{
    if (node == NULL || node->is_leaf)
        return node != NULL;
    int left = depth_of(node->child[0]), right = depth_of(node->child[1]);
    return 1 + (left > right ? left : right);
}

static void free_nodes(node_t *node)
{
    if (node != NULL && !node->is_leaf) {
        free_nodes(node->child[0]);
        free_nodes(node->child[1]);
    }
    free(node);
}

/* -- the index structure: a tree an axis by start index, and one of all by start address -------- */

typedef struct {
    int ndim;
    size_t bytes;
    tree_t axes[MAX_NDIM];
    tree_t addresses;
} index_t;

static int index_add(index_t *x, int axis, const record_t *record, int64_t by)
{
    (void)by;
    if (tree_insert(&x->axes[axis], record->start_index, record, x->bytes))
        return -1;
    if (record->start_address < 0)
        return 0; /* the null record has no chunk */
    return tree_insert(&x->addresses, record->start_address, record, x->bytes);
}

static int index_lengthen(index_t *x, int axis, int64_t by)
{
    (void)x, (void)axis, (void)by; /* the last record has no end */
    return 0;
}

static inline const record_t *index_of(const index_t *x, int axis, int64_t i)
{
    return tree_find(&x->axes[axis], i, x->bytes);
}

static inline const record_t *index_at(const index_t *x, int64_t address)
{
    return tree_find(&x->addresses, address, x->bytes);
}

static size_t index_starts(const index_t *x, int axis, int64_t *out)
{
    size_t n = 0;
    for (const leaf_t *leaf = x->axes[axis].first; leaf != NULL; leaf = leaf->next)
        for (size_t i = 0; i < leaf->n; i++)
            out[n++] = leaf->keys[i];
    return n;
}

static size_t index_bytes(const index_t *x)
{
    size_t total = x->addresses.bytes;
    for (int j = 0; j < x->ndim; j++)
        total += x->axes[j].bytes;
    return total;
}

static int index_depth(const index_t *x)
{
    int most = depth_of(x->addresses.root);
    for (int j = 0; j < x->ndim; j++) {
        int depth = depth_of(x->axes[j].root);
        most = depth > most ? depth : most;
    }
    return most;
}

static void index_free(index_t *x)
{
    for (int j = 0; j < x->ndim; j++)
        free_nodes(x->axes[j].root);
    free_nodes(x->addresses.root);
}

#include "mapping.h"
