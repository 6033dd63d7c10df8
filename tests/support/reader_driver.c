/* Asks docs/format/reader.c for many arrays in one process.
 *
 * A request is two lines: a path; the starts and stops of a box, or nothing for the whole array.
 * The answer is a line: "no" and the reason; or "ok", type, number of axes, extents, bytes of the
 * elements and bytes of the attributes, followed by these bytes.
 */
#include <limits.h>
#undef LONG_MAX
#define LONG_MAX 4099L /* far places are reached in steps, as with a long of 32 bits */
#define EXTARRAY_NO_MAIN
#include "reader.c"

#define MOST (1 << 24)

static char path[65536], numbers[65536], elements[MOST];

static int answer(void) {
    int64_t box[2][32], bytes;
    char *p = numbers;
    xa_array *a = xa_open(path);
    if (!a) return -1;
    bytes = xa_itemsize(a);
    for (int j = 0; j < xa_ndim(a); j++) {
        int is_given = strspn(p, " \n") < strlen(p);
        box[0][j] = is_given ? strtoll(p, &p, 10) : 0;
        box[1][j] = is_given ? strtoll(p, &p, 10) : xa_extent(a, j);
        if (box[1][j] > box[0][j] && bytes < MOST) bytes *= box[1][j] - box[0][j];
    }
    for (int j = 0; j < xa_ndim(a); j++)
        if (box[1][j] <= box[0][j]) bytes = 0;
    /* Give exactly the needed bytes, so that the sanitizer sees any write beyond them. */
    char *room = malloc(bytes > MOST || bytes < 1 ? 1 : (size_t)bytes);
    int failed = xa_read(a, box[0], box[1], room, bytes > MOST ? 0 : bytes);
    if (!failed) {
        memcpy(elements, room, (size_t)bytes);
        printf("ok %s %d", xa_type(a), xa_ndim(a));
        for (int j = 0; j < xa_ndim(a); j++) printf(" %" PRId64, xa_extent(a, j));
        printf(" %" PRId64 " %lu\n", bytes, (unsigned long)strlen(xa_attrs(a)));
        fwrite(elements, 1, (size_t)bytes, stdout);
        fputs(xa_attrs(a), stdout);
        xa_attr(a, "n"); /* the result does not matter here */
    }
    free(room);
    xa_close(a);
    return failed;
}

int main(void) {
    while (fgets(path, sizeof path, stdin) && fgets(numbers, sizeof numbers, stdin)) {
        path[strcspn(path, "\n")] = 0;
        if (answer()) printf("no %s\n", xa_error());
        fflush(stdout);
    }
    return 0;
}
