/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule: every decision of the compiler, one entry each. A pass asks for an entry; if the
 * user specified it, that value is taken, otherwise the pass derives one and records it with its
 * reason. Printing the entries gives the `schedule` block that a user may write.
 *
 * An entry is a key and a value, under an optional subkey: `tile M 128, N 256` is two entries,
 * (tile, M, 128) and (tile, N, 256); `warps 8 producer 4` is (warps, "", 8) and (warps, producer,
 * 4). `launch 1: tile M 16` is for one launch of the kernel and overrides the entry for all
 * launches. */
#ifndef TESSERA_IR_SCHEDULE_H
#define TESSERA_IR_SCHEDULE_H

#include "ir/ir.h"

/* From the weakest to the strongest. */
typedef enum EntryOrigin { ENTRY_DERIVED, ENTRY_PINNED, ENTRY_SOURCE, ENTRY_COMMAND } EntryOrigin;
/* As the IR's text names them. */
extern const char *const entry_origins[ENTRY_COMMAND + 1];

typedef struct ScheduleEntry {
    const char *key, *sub; /* sub "": none */
    const char *symbol;    /* a value that is a name; NULL: the number counts */
    int64_t number;
    EntryOrigin origin;
    const char *reason;       /* derived lines; of pinned ones: where they stand; of those of a
                                 block with a name: whose they are */
    Span span;                /* lines from a file */
    bool used;                /* a pass asked for it: an unused user line gets a warning */
    bool per_launch;          /* given for one launch of the kernel, not for all */
    int launch;               /* that one; of a derived line: for which it was derived */
    const struct ScheduleEntry *other; /* what was derived for another launch, the same or not */
} ScheduleEntry;

struct Schedule {
    struct {
        ScheduleEntry *items;
        size_t n, cap;
    } entries;
    int launch; /* that is being decided; EVERY_LAUNCH: whatever holds for the whole kernel */
    /* Lines that passes asked for, for one launch, whether or not there were any. */
    struct {
        struct Asked *items;
        size_t n, cap;
    } asked;
};

enum { EVERY_LAUNCH = -1 };

/* What a key may look like; the parser of schedule blocks and the docs read it. */
typedef struct ScheduleKey {
    const char *key;
    const char *subs;   /* space separated; "*": a dimension's name; "-": a bare value is allowed */
    const char *values; /* names separated by spaces; the name "int" stands for any integer */
    const char *pass, *doc;
    const char *where; /* what a kernel has where the line decides something */
    bool changes_bits;
} ScheduleKey;
const ScheduleKey *schedule_keys(size_t *n);
const ScheduleKey *schedule_key(const char *key);
/* Is the name one of these, which are separated by spaces? For the fields of ScheduleKey. */
bool schedule_lists(const char *names, const char *name);

/* Does an axis of a line stand for this dimension: its name, or what `tile` calls a further axis of
 * that name, K5? NULL: one whose extent is a number, axis0. */
bool schedule_names_axis(const char *axis, const char *dimension);

/* What is derived from now on is for the n-th launch of the kernel, or for EVERY_LAUNCH, as in the
 * beginning. */
void schedule_at_launch(Func *func, int nth);
/* For this one, of the body's launches and of what becomes some. */
void schedule_at_op(Func *func, const Op *launch);
/* Adds or replaces a user's line, of which the fields from `key` to `span`, `alone` and `launch`
 * count. Command beats source, source beats what is pinned. */
void schedule_add_user(Func *func, ScheduleEntry line);
/* Do they decide the same, for the same launches? */
bool schedule_same_name(const ScheduleEntry *a, const ScheduleEntry *b);
/* The user's line for the launch that is being decided, marked used, or NULL. */
const ScheduleEntry *schedule_user_entry(Func *func, const char *key, const char *sub);
/* Is any line of the key given? It does not count as used. */
bool schedule_has_user_entry(const Func *func, const char *key);
/* The user's number if there is one, else `derived`, recorded with the reason (printf). */
int64_t schedule_decide_int(Func *func, const char *key, const char *sub, int64_t derived,
                            const char *reason, ...) __attribute__((format(printf, 5, 6)));
const char *schedule_decide_symbol(Func *func, const char *key, const char *sub,
                                   const char *derived, const char *reason, ...)
    __attribute__((format(printf, 5, 6)));

/* What was derived for the launch, or is given for all; `line` itself where its `other` has none.
 */
const ScheduleEntry *schedule_for_launch(const ScheduleEntry *line, int launch);
/* Was something else derived for another launch? */
bool schedule_differs(const ScheduleEntry *line);
/* "tile M", "launch 1: tile M" */
const char *schedule_name(Arena *arena, const ScheduleEntry *line);

/* One line a key, in the table's order, then what differs by launch; with `reasons`, each followed
 * by `# reason`. Given as lines they make the same code. */
void schedule_print(const Func *func, bool reasons, Text *out);

#endif
