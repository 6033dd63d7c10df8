/* Sections in which a thread uses shared memory that others may replace, without counting a
 * reference.
 *
 * A reference that all threads count in one place costs more than reading an element.  So each
 * thread has a number of its own, which is odd while the thread is in a section, and writes to no
 * memory that others write to.  A thread that has replaced something waits for every other thread
 * to leave its current section, if any, before it frees the old memory.  A section runs no Python
 * and never waits.  Only one module includes this file: all numbers must be in one list.
 */

#ifndef EXTARRAY_SECTIONS_H
#define EXTARRAY_SECTIONS_H

#ifdef Py_GIL_DISABLED

#include <stdint.h>
#include <stdlib.h>

#include "_system.h"

#define XA_LINE 128             /* no two threads' numbers share a cache line */

typedef struct xa_turn {
    uint64_t number;            /* odd: in a section */
    int in_use;                 /* by a live thread */
    struct xa_turn *next;       /* constant once in the list, and never freed */
    char apart[XA_LINE - sizeof(uint64_t) - sizeof(int) - sizeof(void *)];
} xa_turn;

static xa_turn *xa_turns;
static xa_thread_key xa_turn_key;
static xa_once_t xa_turns_once = XA_ONCE_INIT;
static _Thread_local xa_turn *xa_own_turn;

static void xa_end_turn(void *turn)
{
    xa_own_turn = NULL;
    __atomic_store_n(&((xa_turn *) turn)->in_use, 0, __ATOMIC_RELEASE);
}

/* A forked child has only the parent's forking thread. */
static void xa_forget_turns(void)
{
    xa_turn *turn;
    for (turn = xa_turns; turn != NULL; turn = turn->next)
        if (turn != xa_own_turn) {
            turn->number = 0;
            turn->in_use = 0;
        }
}

static void xa_begin_turns(void)
{
    if (xa_make_thread_key(&xa_turn_key, xa_end_turn) || xa_in_forked_children(xa_forget_turns))
        abort();
}

/* A number for this thread: one that an ended thread left, or a new one. */
static xa_turn *xa_find_turn(void)
{
    xa_turn *turn;
    int free_one;
    xa_once(&xa_turns_once, xa_begin_turns);
    for (turn = __atomic_load_n(&xa_turns, __ATOMIC_ACQUIRE); turn != NULL; turn = turn->next) {
        free_one = 0;
        if (__atomic_compare_exchange_n(
                &turn->in_use, &free_one, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            break;
    }
    if (turn == NULL) {
        turn = calloc(1, sizeof(xa_turn));
        if (turn == NULL)
            abort();            /* 128 bytes: without them Python itself could not go on */
        turn->in_use = 1;
        turn->next = __atomic_load_n(&xa_turns, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(
                &xa_turns, &turn->next, turn, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) { }
    }
    xa_set_thread_value(xa_turn_key, turn);
    return xa_own_turn = turn;
}

static inline void xa_enter_section(void)
{
    xa_turn *turn = xa_own_turn;
    if (turn == NULL)
        turn = xa_find_turn();
    __atomic_store_n(&turn->number, turn->number + 1, __ATOMIC_SEQ_CST);
}

static inline void xa_leave_section(void)
{
    xa_turn *turn = xa_own_turn;
    __atomic_store_n(&turn->number, turn->number + 1, __ATOMIC_RELEASE);
}

/* Wait until nobody uses memory that was replaced before this call. */
static void xa_wait_for_sections(void)
{
    xa_turn *turn;
    uint64_t number;
    int tries;
    for (turn = __atomic_load_n(&xa_turns, __ATOMIC_SEQ_CST); turn != NULL; turn = turn->next) {
        number = __atomic_load_n(&turn->number, __ATOMIC_SEQ_CST);
        for (tries = 0; (number & 1) && __atomic_load_n(&turn->number, __ATOMIC_ACQUIRE) == number; tries++)
            if (tries > 100)
                xa_yield();
    }
}

#else

static inline void xa_enter_section(void) { }
static inline void xa_leave_section(void) { }
static inline void xa_wait_for_sections(void) { }

#endif

#endif
