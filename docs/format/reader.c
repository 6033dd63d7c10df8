/* A reader of extarray's file format 2 in C99, written from the pages beside it, without libraries.
 * It reads closed arrays, in pairs of files and in packed ones, of plain types, in the orders C and
 * F, with any history of growth and cuts, and refuses all else by name:
 *
 *     cc -std=c99 -O2 -o reader reader.c
 *     ./reader scene                   the facts, and all elements
 *     ./reader scene 0:3,5,:           those with 0 <= i < 3 and j = 5
 *     ./reader survey.xap/north/wind   an array in a packed group
 *
 * As a library: compile with -DEXTARRAY_NO_MAIN -shared -fPIC, and copy the declarations below.
 * Indices begin at 0.  Elements come in C order (the last axis varies fastest: Fortran, Julia and R
 * see the axes reversed) and in the byte order of the machine.  The array owns what functions point
 * to, until xa_close.  NULL and -1 are failures; xa_error tells the last one.  For one thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct xa_array xa_array;

xa_array *xa_open(const char *path); /* NAME, FILE.xap or FILE.xap/NAME */
void xa_close(xa_array *a);
const char *xa_error(void);
int xa_ndim(const xa_array *a);
int64_t xa_extent(const xa_array *a, int axis);
int64_t xa_itemsize(const xa_array *a);
const char *xa_type(const xa_array *a);  /* as the file has it, such as "<f8" */
const char *xa_attrs(const xa_array *a); /* JSON, UTF-8 */
const char *xa_attr(xa_array *a, const char *name); /* JSON of one, until the next call */
/* Reads the elements with start[j] <= index j < stop[j] to `out`, which has `out_bytes` bytes. */
int xa_read(xa_array *a, const int64_t *start, const int64_t *stop, void *out, int64_t out_bytes);
/* All in one, for .C of R: the shape, of up to 32 axes; and a box, unless `out_bytes` is 0. */
void xa_box(char **path, int *ndim, double *shape, double *start, double *stop, unsigned char *out,
            double *out_bytes, int *status);

typedef struct { FILE *file; uint64_t start, size; } part; /* size UINT64_MAX: to the end */

struct xa_array {
    part xmd, xta;
    unsigned char uuid[16];
    char type[64], kind, order, *attrs; /* behind the attributes is room for one of them */
    int k, is_big, one;                 /* one: bytes that have a byte order */
    int64_t itemsize, chunk_bytes, n_chunks, n_segments, *log; /* of each segment: axis, side, */
    int64_t chunk[32], bounds[32], offset[32], grid[32], added[32]; /* grid, added at starts */
};

static char message[256] = "reader FILE [start:stop,...]";

static int fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(message, sizeof message, format, values);
    va_end(values);
    for (char *c = message; *c; c++) /* a file may hold anything, and this goes to a terminal */
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    return -1;
}

static uint64_t number(const void *at, int bytes) { /* little-endian */
    uint64_t n = 0;
    while (bytes--) n = n << 8 | ((const unsigned char *)at)[bytes];
    return n;
}

static int64_t integer(const void *at, int bytes) { /* the same, with a sign */
    uint64_t n = number(at, bytes), sign = UINT64_C(1) << (8 * bytes - 1);
    return n & sign ? -(int64_t)(sign - 1 - (n & (sign - 1))) - 1 : (int64_t)n;
}

static const uint32_t CRC_32C = 0x82F63B78u, CRC_32 = 0xEDB88320u; /* polynomials, reflected */

static uint32_t crc(uint32_t polynomial, uint32_t sum, const unsigned char *p, size_t n) {
    for (sum = ~sum; n--; p++) {
        sum ^= *p;
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? polynomial : 0);
    }
    return ~sum;
}

/* Reads bytes, all of them.  fseek takes a long, which may have 32 bits: so it goes in steps. */
static int get(const part *f, uint64_t at, void *to, size_t n) {
    if (at > f->size || n > f->size - at || f->start + at < at) return fail("a file is too short");
    for (int whence = (at += f->start, SEEK_SET); at || whence == SEEK_SET; whence = SEEK_CUR) {
        long step = at > LONG_MAX ? LONG_MAX : (long)at;
        if (fseek(f->file, step, whence)) return fail("cannot seek: %s", strerror(errno));
        at -= (uint64_t)step;
    }
    return n && fread(to, 1, n, f->file) != n ? fail("a file is too short, or unreadable") : 0;
}

static int sum_of(const part *f, uint64_t at, uint64_t n, uint32_t polynomial, uint32_t *sum) {
    unsigned char piece[4096];
    for (size_t some; n; at += some, n -= some) {
        some = n < sizeof piece ? (size_t)n : sizeof piece;
        if (get(f, at, piece, some)) return -1;
        *sum = crc(polynomial, *sum, piece, some);
    }
    return 0;
}

static int times(int64_t *product, int64_t factor) { /* of numbers that are not negative */
    return factor && *product > INT64_MAX / factor ? -1 : (*product *= factor, 0);
}

static int ends(const char *text, size_t n, const char *with) {
    size_t m = strlen(with);
    return n >= m && !memcmp(text + n - m, with, m);
}

/* Finds a member by its entry in the directory, and by the lengths in its own header. */
static int find_member(part *found, const part *packed, const unsigned char *entry,
                       const unsigned char *extra, const unsigned char *end) {
    unsigned char head[30];
    uint64_t n[3] = {number(entry + 24, 4), number(entry + 20, 4), number(entry + 42, 4)};
    for (; end - extra >= 4 && number(extra, 2) != 1; extra += 4 + number(extra + 2, 2)) {}
    for (int i = 0, at = 4; i < 3; i++) /* bytes, bytes, place: in 64 bits if these are too few */
        if (n[i] == UINT32_MAX && end - extra >= at + 8) n[i] = number(extra + at, 8), at += 8;
    if (number(entry + 8, 2) & ~2048u || number(entry + 10, 2) || n[0] != n[1])
        return fail("a member of the packed file is compressed or encrypted");
    if (n[0] > packed->size || get(packed, n[2], head, 30) || number(head, 4) != 0x04034b50)
        return fail("a member of the packed file is not where the directory says");
    found->start = n[2] + 30 + number(head + 26, 2) + number(head + 28, 2), found->size = n[0];
    return 0;
}

/* Finds the files of the array `inner` in a packed file; NULL: of the only one. */
static int find_pair(xa_array *a, const char *inner) {
    static unsigned char end[98], entry[46], name[4 * 65536], *last = end + 76;
    part packed = a->xmd, *parts[2] = {&a->xmd, &a->xta};
    int seen[2] = {0, 0}, is_group = 0;
    uint32_t told = 0, sum = 0;
    if (fseek(packed.file, -98, SEEK_END) || fread(end, 1, 98, packed.file) != 98
        || number(last, 4) != 0x06054b50 || number(last + 20, 2))
        return fail("no packed file: it does not end as a ZIP file, or has a comment");
    uint64_t entries = number(last + 10, 2), size = number(last + 12, 4), at = number(last + 16, 4);
    if (number(last - 20, 4) == 0x07064b50 && number(end, 4) == 0x06064b50)
        entries = number(end + 32, 8), size = number(end + 40, 8), at = number(end + 48, 8);
    if (size > INT64_MAX || at > INT64_MAX) return fail("the packed file has no such directory");
    for (packed.size = at + size; entries--; at += number(entry + 32, 2)) {
        if (get(&packed, at, entry, 46) || number(entry, 4) != 0x02014b50)
            return fail("the directory of the packed file is damaged");
        size_t n = number(entry + 28, 2), behind = number(entry + 30, 2);
        const char *text = (const char *)name;
        if (get(&packed, at + 46, name, n + behind)) return -1;
        at += 46 + n + behind;
        int which = ends(text, n, ".xmd") ? 0 : ends(text, n, ".xta") ? 1 : 2;
        is_group |= ends(text, n, "dataset.json") && (n == 12 || text[n - 13] == '/');
        if (which == 2 || n == 4 || text[n - 5] == '/') continue;
        is_group |= memchr(text, '/', n) != NULL || (seen[which] && !inner);
        if (inner && (n != strlen(inner) + 4 || memcmp(text, inner, n - 4))) continue;
        if (inner && seen[which]) return fail("the name '%s' occurs twice", inner);
        if (find_member(parts[which], &packed, entry, name + n, name + n + behind)) return -1;
        seen[which] = 1, told = which ? told : (uint32_t)number(entry + 16, 4);
    }
    if (!inner && is_group) return fail("a packed group: name an array in it, FILE.xap/NAME");
    if (!seen[0] || !seen[1]) return fail("there is no array '%s' in it", inner ? inner : "");
    if (sum_of(&a->xmd, 0, a->xmd.size, CRC_32, &sum)) return -1;
    return sum == told ? 0 : fail("the .xmd in the packed file is damaged");
}

static int parse_type(xa_array *a, const char *text, size_t n) {
    static const char units[] = "Y] M] W] D] h] m] s] ms] us] ns] ps] fs] as] ", plain[] =
        " |b1 |i1 |u1 <i2 <i4 <i8 <u2 <u4 <u8 <f2 <f4 <f8 <c8 <c16 <M8 <m8 ";
    char key[72], kind, *end = a->type + 2, *found;
    if (n < 5 || n >= sizeof a->type || text[0] != '"' || text[n - 1] != '"')
        return fail("no records, long doubles or types of ml_dtypes are read: %.*s", (int)n, text);
    memcpy(a->type, text + 1, n - 2), a->kind = kind = a->type[1], a->is_big = a->type[0] == '>';
    int fits = *end >= '0' && *end <= '9' && (*end != '0' || !end[1]) && !strchr(a->type, ' ');
    uint64_t size = (fits &= strlen(a->type) == n - 2, strtoull(end, &end, 10));
    sprintf(key, " %c%.*s ", a->is_big ? '<' : a->type[0], (int)(end - a->type) - 1, a->type + 1);
    if (strchr("SVU", kind)) fits &= size < UINT32_MAX && key[1] == (kind == 'U' ? '<' : '|');
    else fits = fits && strstr(plain, key);
    if (strchr("Mm", kind) && *end == '[') {
        if (*++end >= '1' && *end <= '9') fits = fits && strtoull(end, &end, 10) < 1u << 31;
        sprintf(key, "%s ", end), found = strstr(units, key);
        fits = fits && found && key[1] != ' ' && (found == units || found[-1] == ' ');
    } else fits = fits && !*end && !(a->is_big && strchr("Mm", kind));
    if (!fits || size * (kind == 'U' ? 4 : 1) != (uint64_t)a->itemsize)
        return fail("the type %s is not known", a->type);
    a->one = strchr("SV", kind) ? 1 : kind == 'U' ? 4 : (int)a->itemsize / (kind == 'c' ? 2 : 1);
    return 0;
}

/* Gives the places of the first superblock and of the growth log. */
static int read_header(xa_array *a, uint64_t *superblocks, uint64_t *log) {
    unsigned char head[48 + 8 * 32];
    uint32_t sum = 0;
    char type[64];
    if (get(&a->xmd, 0, head, 48) || memcmp(head, "\x89XTA\r\n\x1a\n", 8))
        return fail("no array: the .xmd does not begin as one");
    if (number(head + 8, 2) != 2)
        return fail("major version %d of the format is not read", (int)number(head + 8, 2));
    a->k = head[32], a->order = (char)head[33], a->itemsize = (int64_t)number(head + 36, 4);
    uint64_t n_type = number(head + 40, 4), at = 48 + 8 * (uint64_t)a->k;
    uint64_t end = at + n_type + (uint64_t)a->itemsize + (head[34] & 4 ? 32 : 0);
    *superblocks = number(head + 12, 4), *log = *superblocks + 8192 + (end + 515) / 512 * 512;
    if (end + 4 > *superblocks || *superblocks % 4096 || a->k > 32 || !a->itemsize
        || sum_of(&a->xmd, 0, end, CRC_32C, &sum) || get(&a->xmd, end, head, 4)
        || number(head, 4) != sum || get(&a->xmd, 0, head, (size_t)at))
        return fail("the header is damaged");
    memcpy(a->uuid, head + 16, 16), a->chunk_bytes = a->itemsize;
    for (int j = 0; j < a->k; j++) {
        a->chunk[j] = integer(head + 48 + 8 * j, 8);
        if (a->chunk[j] < 1 || times(&a->chunk_bytes, a->chunk[j])) return fail("no such chunks");
    }
    if (a->order != 'C' && a->order != 'F') return fail("the order %c is not read", a->order);
    n_type = n_type < sizeof type ? n_type : sizeof type;
    return get(&a->xmd, at, type, (size_t)n_type) ? -1 : parse_type(a, type, (size_t)n_type);
}

/* The records of the growth log, with what had been added at the starts before each of them. */
static int read_log(xa_array *a, uint64_t at, uint64_t count) {
    size_t k = (size_t)a->k, width = 8 + 8 * k, row = 2 + 2 * k;
    unsigned char head[12], record[8 + 8 * 32];
    uint32_t begun = crc(CRC_32C, 0, a->uuid, 16);
    for (uint64_t n = 0, room = 8; ; room *= 2) {
        uint64_t stop = n + (room < count - n ? room : count - n), place = at + 16;
        if (get(&a->xmd, at + 16 + (stop - n - 1) * width, record, width)) return -1;
        void *log = stop < SIZE_MAX / 1024 ? realloc(a->log, (size_t)(stop + 1) * row * 8) : NULL;
        if (!log) return fail("no memory for the growth log");
        for (a->log = log; n < stop + (stop == count); n++, place += width) {
            int64_t *s = a->log + n * row, *was = n ? s - row : s, product = 1;
            int is_end = n == count, fits = 1, j = a->k; /* behind the last one stands the grid */
            if (!is_end && get(&a->xmd, place, record, width)) return -1;
            if (!is_end && crc(CRC_32C, begun, record + 4, width - 4) != number(record, 4))
                return fail("record %" PRIu64 " of the growth log is damaged", n);
            s[0] = is_end ? 0 : record[5], s[1] = is_end ? 0 : record[4];
            if (!is_end) fits = s[1] < 2 && (n ? s[0] < a->k : !s[0] && !s[1]);
            if (!is_end && n) fits = fits && (s[0] != was[0] || s[1] != was[1]);
            while (fits && j--) {
                s[2 + j] = is_end ? a->grid[j] : integer(record + 8 + 8 * j, 8);
                int64_t by = s[2 + j] < 0 ? -1 : s[2 + j] - was[2 + j], *added = s + 2 + k + j;
                *added = n ? was[2 + k + j] + (was[0] == j && was[1] ? by : 0) : 0;
                fits = by >= 0 && (!by || was[0] == j) && (n || j || !s[2]);
                fits = fits && (is_end || j == s[0] || !times(&product, s[2 + j]));
                a->added[j] = *added;
            }
            if (!fits || (k && !is_end && times(&product, s[2 + s[0]])))
                return fail("record %" PRIu64 " of the growth log is not possible", n);
        }
        if (n > count) break;
        if (get(&a->xmd, at, head, 12) || crc(CRC_32C, begun, head, 8) != number(head + 8, 4)
            || !(at = number(head, 8)) || at > INT64_MAX) return fail("the growth log is damaged");
    }
    a->n_segments = (int64_t)count;
    return 0;
}

/* If the newest superblock is sealed, and `.xta` has its seal, this is the state of the array. */
static int read_state(xa_array *a, uint64_t superblocks, uint64_t log) {
    unsigned char blocks[2][88 + 24 * 32], *block = blocks[0], *best = NULL, seal[32];
    size_t n = 88 + 24 * (size_t)a->k;
    for (unsigned i = 0; i < 5; i++) {
        if (get(&a->xmd, superblocks + 1024 * (i < 2 ? i : i + 2), block, n)) continue;
        if (crc(CRC_32C, 0, block + 4, n - 4) != number(block, 4)) continue;
        if (best && number(block + 8, 8) <= number(best + 8, 8)) continue;
        best = block, block = blocks[block == blocks[0]];
    }
    if (!best) return fail("the metadata are damaged: no superblock is whole");
    if (!(best[4] & 1)) return fail("it is not closed: a writer is at work, or has died");
    uint64_t count = number(best + 16, 8), size = number(best + 24, 8), at = number(best + 32, 8);
    uint64_t length = number(best + 40, 4), most = UINT64_C(1) << 62;
    int fits = number(best + 8, 8) <= most && number(best + 64, 8) <= most;
    fits = fits && count && count < INT32_MAX && length <= number(best + 44, 4);
    a->n_chunks = 1;
    for (int j = 0; fits && j < a->k; j++) {
        int64_t all = a->grid[j] = integer(best + 88 + 8 * (2 * a->k + j), 8);
        a->bounds[j] = integer(best + 88 + 8 * j, 8);
        a->offset[j] = integer(best + 88 + 8 * (a->k + j), 8);
        fits = a->bounds[j] >= 0 && a->offset[j] >= 0 && all >= 0 && !times(&a->n_chunks, all);
        fits = fits && !times(&all, a->chunk[j]) && all < INT64_MAX - 4095 && a->offset[j] <= all;
        fits = fits && a->bounds[j] <= all - a->offset[j];
    }
    int64_t data_bytes = a->n_chunks;
    if (!fits || times(&data_bytes, a->chunk_bytes) || data_bytes >= INT64_MAX - 4095
        || (uint64_t)data_bytes != size) return fail("the superblock is not possible");
    if (get(&a->xta, size, seal, 32) || memcmp(seal, "\x89XTA sealed:\r\n\x1a\n", 16)
        || memcmp(seal + 16, a->uuid, 16)
        || (a->xta.size == UINT64_MAX ? fgetc(a->xta.file) != EOF : a->xta.size != size + 32))
        return fail("the .xta is not the partner of the .xmd, or was cut off");
    uint32_t sum = 0;
    if (sum_of(&a->xmd, at, length, CRC_32C, &sum) || sum != number(best + 60, 4))
        return fail("the attributes are damaged");
    if (!(a->attrs = length < SIZE_MAX / 4 ? calloc(2, (size_t)length + 1) : NULL))
        return fail("no memory for the attributes");
    return get(&a->xmd, at, a->attrs, (size_t)length) ? -1 : read_log(a, log, count);
}

static int open_files(xa_array *a, const char *path, char *name) {
    uint64_t places[2];
    unsigned char magic[4], *u = a->uuid;
    int n = (int)strlen(path);
    if (ends(path, (size_t)n, ".xmd") || ends(path, (size_t)n, ".xta")) n -= 4;
    sprintf(name, "%.*s.xmd", n, path), a->xmd.size = a->xta.size = UINT64_MAX;
    if (!(a->xmd.file = fopen(name, "rb"))) fail("cannot open '%s': %s", name, strerror(errno));
    for (int m = n; m > 0 && !a->xmd.file; m--) { /* a packed file may be on the way */
        if (m < n && path[m] != '/') continue;
        sprintf(name, "%.*s", m, path), a->xta.file = a->xmd.file = fopen(name, "rb");
        if (a->xmd.file && fread(magic, 1, 4, a->xmd.file) == 4 && number(magic, 4) == 0x04034b50)
            return sprintf(name, "%.*s", n, path), find_pair(a, m < n ? name + m + 1 : NULL);
        if (a->xmd.file) fclose(a->xmd.file), a->xta.file = a->xmd.file = NULL;
    }
    if (!a->xmd.file || read_header(a, places, places + 1)) return -1;
    int m = sprintf(name, "%.*s.xta", n, path); /* its maker may not have given it the name */
    sprintf(name + m, ".%02x%02x%02x%02x%02x%02x.new", u[0], u[1], u[2], u[3], u[4], u[5]);
    if (!(a->xta.file = fopen(name, "rb"))) name[m] = 0, a->xta.file = fopen(name, "rb");
    return a->xta.file ? 0 : fail("cannot open '%s': %s", name, strerror(errno));
}

xa_array *xa_open(const char *path) {
    uint64_t places[2];
    xa_array *a = calloc(1, sizeof *a);
    char *name = strlen(path) < INT_MAX / 2 ? malloc(strlen(path) + 32) : NULL;
    int failed = !a || !name ? fail("no memory") : open_files(a, path, name);
    failed = failed || read_header(a, places, places + 1) || read_state(a, places[0], places[1]);
    free(name);
    return failed ? xa_close(a), NULL : a;
}

void xa_close(xa_array *a) {
    if (!a) return;
    if (a->xta.file && a->xta.file != a->xmd.file) fclose(a->xta.file);
    if (a->xmd.file) fclose(a->xmd.file);
    free(a->attrs), free(a->log), free(a);
}

const char *xa_error(void) { return message; }
int xa_ndim(const xa_array *a) { return a->k; }
int64_t xa_extent(const xa_array *a, int j) { return j >= 0 && j < a->k ? a->bounds[j] : -1; }
int64_t xa_itemsize(const xa_array *a) { return a->itemsize; }
const char *xa_type(const xa_array *a) { return a->type; }
const char *xa_attrs(const xa_array *a) { return a->attrs; }

const char *xa_attr(xa_array *a, const char *name) {
    char *p = a->attrs, *text, *value = NULL, *found = NULL, *end = NULL, *room = p + strlen(p) + 1;
    for (int depth = 0, is_value = 0; *p; p++) {
        if (*p == '"') {
            for (text = ++p; *p && *p != '"'; p++) p += *p == '\\' && p[1];
            int same = strlen(name) == (size_t)(p - text) && !strncmp(text, name, strlen(name));
            if (depth == 1 && !is_value && same) value = p;
            if (!*p) break;
        } else if (depth == 1 && *p == ':') is_value = 1, value = value ? p + 1 : NULL;
        else if (depth == 1 && (*p == ',' || *p == '}')) /* of equal names the last one counts */
            found = value ? value : found, end = value ? p : end, is_value = 0, value = NULL;
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
    }
    if (!found) return fail("there is no attribute '%.99s'", name), NULL;
    memcpy(room, found, (size_t)(end - found)), room[end - found] = 0;
    if (!strstr(room, "\"$type\"")) return room;
    return fail("the attribute '%.99s' is, or has in it, a $type, which is not read", name), NULL;
}

/* The address of a chunk, whose index counts from the start of the grid. */
static int64_t address(const xa_array *a, const int64_t *index) {
    int64_t k = a->k, row = 2 + 2 * k, *s = a->log + a->n_segments * row, q = 0, product = 1, n;
    if (!k) return 0;
    do { /* the last segment that owns the chunk; n: how far it is from where the segment begins */
        s -= row, n = index[s[0]] - a->added[s[0]] + s[2 + k + s[0]];
        n = s[1] ? -1 - n : n - s[2 + s[0]];
    } while (n < 0 && s > a->log);
    for (int64_t j = k - 1; j >= 0; j--) {
        if (j == s[0]) continue;
        q += (index[j] - a->added[j] + s[2 + k + j]) * product, product *= s[2 + j];
    }
    return q + (n + s[2 + s[0]]) * product;
}

static int next(int k, int64_t *index, const int64_t *low, const int64_t *high) {
    for (int j = k - 1; j >= 0; index[j] = low[j], j--)
        if (++index[j] < high[j]) return 1;
    return 0;
}

/* The bytes of a box; -1: there is no such box. */
static int64_t box_bytes(const xa_array *a, const int64_t *start, const int64_t *stop) {
    int64_t total = a->itemsize, is_empty = 0;
    for (int j = 0; j < a->k; j++) {
        if (start[j] < 0 || start[j] > stop[j] || stop[j] > a->bounds[j])
            return fail("%" PRId64 ":%" PRId64 " is not in axis %d", start[j], stop[j], j);
        is_empty |= start[j] == stop[j];
    }
    for (int j = 0; j < a->k && !is_empty; j++)
        if (times(&total, stop[j] - start[j]) || (uint64_t)total > SIZE_MAX / 2)
            return fail("the box is too large");
    return is_empty ? 0 : total;
}

static int read_box(xa_array *a, const int64_t *start, const int64_t *stop, char *out,
                    int64_t out_bytes, int is_big) {
    int64_t low[32], high[32], chunk[32], from[32], to[32], at[32], step[32], begin[32];
    int64_t w = a->itemsize, total = box_bytes(a, start, stop);
    int k = a->k, one = is_big == a->is_big ? 1 : a->one;
    if (total <= 0) return (int)total;
    if (total > out_bytes) return fail("the box has %" PRId64 " bytes", total);
    for (int j = 0; j < k; j++) {
        low[j] = chunk[j] = (start[j] + a->offset[j]) / a->chunk[j];
        high[j] = (stop[j] + a->offset[j] - 1) / a->chunk[j] + 1;
    }
    do { /* what is between the first and the last element in a chunk */
        int64_t first = 0, last = 0, size = 1, q = address(a, chunk);
        for (int i = 0; i < k; i++) {
            int j = a->order == 'F' ? i : k - 1 - i;
            begin[j] = chunk[j] * a->chunk[j] - a->offset[j];
            at[j] = from[j] = begin[j] < start[j] ? start[j] - begin[j] : 0;
            to[j] = stop[j] - begin[j] < a->chunk[j] ? stop[j] - begin[j] : a->chunk[j];
            step[j] = size, size *= a->chunk[j];
            first += from[j] * step[j], last += (to[j] - 1) * step[j];
        }
        size_t bytes = (size_t)((last - first + 1) * w);
        char *piece = (uint64_t)(last - first) < SIZE_MAX / (uint64_t)w - 1 ? malloc(bytes) : NULL;
        if (!piece || q < 0 || q >= a->n_chunks
            || get(&a->xta, (uint64_t)(q * a->chunk_bytes + first * w), piece, bytes))
            return free(piece), fail("a chunk cannot be read, or has no place in memory");
        do {
            int64_t source = -first, target = 0;
            for (int j = 0; j < k; j++) {
                source += at[j] * step[j];
                target = target * (stop[j] - start[j]) + begin[j] + at[j] - start[j];
            }
            for (int64_t i = 0; i < w && one > 1; i++)
                out[target * w + i] = piece[source * w + i / one * one + one - 1 - i % one];
            if (one == 1) memcpy(out + target * w, piece + source * w, (size_t)w);
        } while (next(k, at, from, to));
        free(piece);
    } while (next(k, chunk, low, high));
    return 0;
}

int xa_read(xa_array *a, const int64_t *start, const int64_t *stop, void *out, int64_t out_bytes) {
    int one = 1;
    return read_box(a, start, stop, out, out_bytes, !*(char *)&one);
}

void xa_box(char **path, int *ndim, double *shape, double *start, double *stop, unsigned char *out,
            double *out_bytes, int *status) {
    int64_t from[32], to[32];
    xa_array *a = xa_open(*path);
    *status = a ? 0 : -1, *ndim = a ? a->k : 0;
    for (int j = 0; j < *ndim; j++) {
        shape[j] = (double)a->bounds[j];
        if (*out_bytes > 0) from[j] = (int64_t)start[j], to[j] = (int64_t)stop[j];
    }
    if (a && *out_bytes > 0) *status = xa_read(a, from, to, out, (int64_t)*out_bytes);
    xa_close(a);
}

#ifndef EXTARRAY_NO_MAIN
static double real(const void *at, int bytes) {
    uint64_t w = number(at, bytes), e = w >> 10 & 31, m = w & 1023;
    uint32_t single = (uint32_t)w;
    double d = e == 31 ? (m ? NAN : INFINITY) : (double)(m + (e ? 1024 : 0));
    float f;
    if (bytes == 8) return memcpy(&d, &w, 8), d;
    if (bytes == 4) return memcpy(&f, &single, 4), (double)f;
    for (e += !e; e < 25; e++) d /= 2;
    for (; e > 25; e--) d *= 2;
    return w >> 15 ? -d : d;
}

static void print(const xa_array *a, const char *p) {
    int n = (int)a->itemsize, one = a->one, digits = one == 8 ? 17 : 9;
    if (strchr("ub", a->kind)) printf("%" PRIu64, number(p, n));
    else if (strchr("iMm", a->kind)) printf("%" PRId64, integer(p, n));
    else if (strchr("fc", a->kind)) printf("%.*g", digits, real(p, one));
    if (a->kind == 'c') printf("%+.*gj", digits, real(p + one, one));
    while (strchr("SU", a->kind) && n && !number(p + n - one, one)) n -= one;
    for (int i = 0; strchr("SUV", a->kind) && i < n; i += one) {
        unsigned w = (unsigned)number(p + i, one);
        if (w > 32 && w < 127 && w != '\\' && a->kind != 'V') putchar((int)w);
        else printf(one == 4 ? "\\U%08x" : "\\x%02x", w);
    }
}

int main(int n, char **words) {
    int64_t start[32], stop[32], bytes, row = 1;
    xa_array *a = n == 2 || n == 3 ? xa_open(words[1]) : NULL;
    char *p = n == 3 ? words[2] : "", *raw = NULL;
    for (int j = 0; a && j < a->k; j++) { /* start:stop, either of them left out; or one index */
        int is_index = *p && *p != ':' && *p != ',';
        start[j] = is_index ? strtoll(p, &p, 10) : 0;
        stop[j] = is_index && *p != ':' ? start[j] + (start[j] < INT64_MAX) : a->bounds[j];
        if (*p == ':' && *++p && *p != ',') stop[j] = strtoll(p, &p, 10);
        if (*p && *p++ != ',') start[j] = -1;
    }
    bytes = !a ? -1 : *p ? fail("no box of %d axes: %s", a->k, p) : box_bytes(a, start, stop);
    if (bytes >= 0 && !(raw = malloc((size_t)bytes + 1))) bytes = fail("no memory for the box");
    if (bytes < 0 || read_box(a, start, stop, raw, bytes, 0))
        return fprintf(stderr, "reader: %s\n", message), free(raw), xa_close(a), 1;
    printf("# %s", a->type);
    for (int j = 0; j < a->k; j++) printf(" %" PRId64, row = stop[j] - start[j]);
    for (int64_t i = 0; i < bytes / a->itemsize; i++)
        putchar(i % row ? ' ' : '\n'), print(a, raw + i * a->itemsize);
    return putchar('\n'), free(raw), xa_close(a), 0;
}
#endif
