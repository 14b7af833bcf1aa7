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
    const char *symbol;    /* a value that is a name; NULL: the value is `number` */
    int64_t number;
    EntryOrigin origin;
    const char *reason; /* of derived entries; of pinned ones: the pin file; of entries in a named
                           block: its name */
    Span span;          /* of entries from a file */
    bool used;          /* a pass asked for it: an unused user entry gets a warning */
    bool per_launch;    /* the user set it for one launch, not for all */
    int launch;         /* that launch; of a derived entry: the launch it was derived for */
    const struct ScheduleEntry *other; /* derived for another launch, with the same value or not */
} ScheduleEntry;

struct Schedule {
    struct {
        ScheduleEntry *items;
        size_t n, cap;
    } entries;
    int launch; /* the one that passes decide now; EVERY_LAUNCH: the kernel as a whole */
    /* Entries that passes asked for, for one launch, whether or not there were any. */
    struct {
        struct Asked *items;
        size_t n, cap;
    } asked;
};

enum { EVERY_LAUNCH = -1 };

/* A row of schedule.def; the parser of schedule blocks and the docs read it. */
typedef struct ScheduleKey {
    const char *key;
    const char *subs;   /* space separated; "*": a dimension's name; "-": a bare value is allowed */
    const char *values; /* names separated by spaces; the name "int" stands for any integer */
    const char *pass, *doc;
    const char *where; /* the kernels to which the key applies */
    bool changes_bits;
} ScheduleKey;
const ScheduleKey *schedule_keys(size_t *n);
const ScheduleKey *schedule_key(const char *key);
/* True if the name is in the space-separated list `names`, a field of ScheduleKey. */
bool schedule_lists(const char *names, const char *name);

/* True if `axis` of an entry names this dimension: by its name, or by the name that `tile` gives to
 * a further axis of the same dimension, K5. NULL: an axis of constant extent, axis0. */
bool schedule_names_axis(const char *axis, const char *dimension);

/* True if the word, behind the key, is a subkey: the table names it, or takes dimensions and has no
 * such value. */
bool schedule_takes_sub(const ScheduleKey *kind, const char *word);

/* Entries that are derived from now on belong to the n-th launch of the kernel, or to EVERY_LAUNCH,
 * which is the initial state. */
void schedule_at_launch(Func *func, int nth);
/* The same for this op of the body, a launch or a group that becomes one. */
void schedule_at_op(Func *func, const Op *launch);
/* Adds or replaces a user's entry; fields `key` to `span`, `per_launch` and `launch` count. The
 * command line takes precedence over the source, and the source over pins. */
void schedule_add_user(Func *func, ScheduleEntry line);
/* True if both have the same key and subkey and apply to the same launches. */
bool schedule_same_name(const ScheduleEntry *a, const ScheduleEntry *b);
/* The user's entry for the current launch, which is marked used; NULL: there is none. */
const ScheduleEntry *schedule_user_entry(Func *func, const char *key, const char *sub);
/* The same without marking it used: for a pass that derives something else from the entry, or that
 * may not apply it. */
const ScheduleEntry *schedule_peek_entry(Func *func, const char *key, const char *sub);
/* True if the user set any entry of the key. Does not mark it used. */
bool schedule_has_user_entry(const Func *func, const char *key);
/* The user's value if there is one; else `derived`, which is recorded with the reason (printf). */
int64_t schedule_decide_int(Func *func, const char *key, const char *sub, int64_t derived,
                            const char *reason, ...) __attribute__((format(printf, 5, 6)));
const char *schedule_decide_symbol(Func *func, const char *key, const char *sub,
                                   const char *derived, const char *reason, ...)
    __attribute__((format(printf, 5, 6)));

/* The same for a key whose values are `on` and `off`; true for `on`. */
bool schedule_decide_on(Func *func, const char *key, bool derived, const char *reason, ...)
    __attribute__((format(printf, 4, 5)));

/* The entry for the launch: `line` itself or one of its `other` entries. */
const ScheduleEntry *schedule_for_launch(const ScheduleEntry *line, int launch);
/* True if another launch has another derived value. */
bool schedule_differs(const ScheduleEntry *line);
/* "tile M", "launch 1: tile M" */
const char *schedule_name(Arena *arena, const ScheduleEntry *line);

/* Prints one line per key, in the table's order, then the entries that differ by launch; with
 * `reasons`, each is followed by `# reason`. As a user's schedule they produce the same code. */
void schedule_print(const Func *func, bool reasons, Text *out);

#endif
