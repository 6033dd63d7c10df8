/* The leaf-linked red-black tree: a leaf is one record. */

#define BUCKET 1

#include "tree.h"
