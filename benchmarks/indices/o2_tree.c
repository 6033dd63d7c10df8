/* The O2-Tree: a leaf is a block of records. */

#define BUCKET 32

#include "tree.h"
