/* SPDX-License-Identifier: Apache-2.0 */
/* Targets for cards other than the default one: copies of a target's row with another machine. */
#include "ir/target/target_card.h"

#include "support/int_math.h"
#include "support/text.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SMS = 4096, MAX_CLOCK = 10000 /* MHz; what users may write */ };

const char *target_spelling(const Target *target)
{
    return target->spelling ? target->spelling : target->name;
}

const char *target_cards(Arena *arena, const Target *target)
{
    Text names = text_new(arena);
    for (int i = 0; i < N_MACHINES; i++) {
        if (text_equal(MACHINES[i].target, target->name)) {
            text_printf(&names, "%s%s", names.n ? ", " : "", MACHINES[i].name);
        }
    }
    return names.data;
}

static const Target *with_machine(Arena *arena, const Target *target, const Machine *machine)
{
    if (machine == target->machine) {
        return target;
    }
    Target *made = arena_alloc(arena, sizeof *made);
    *made = *target;
    made->machine = machine;
    made->spelling = arena_printf(arena, "%s@%s", target->name, machine->name);
    return made;
}

/* The target's default card with other multiprocessors and another clock. Its memory has the same
 * rate for each multiprocessor. */
static const Target *with_scaled(Arena *arena, const Target *target, int num_sms, int clock)
{
    const Machine *from = target->machine;
    if (num_sms == from->num_sms && clock == from->clock) {
        return target;
    }
    Machine *made = arena_alloc(arena, sizeof *made);
    double sms = (double)num_sms / from->num_sms, clocks = (double)clock / from->clock;
    *made = *from;
    made->name = arena_printf(arena, "%dx%d", num_sms, clock);
    made->title = arena_printf(arena, "a card like %s", from->title);
    made->num_sms = num_sms;
    made->cluster_spare = (int)(from->cluster_spare * sms);
    made->clock = clock;
    made->matrix_clock = (int)max_i64(1, (int64_t)(from->matrix_clock * clocks));
    made->memory_gbs = (int)max_i64(1, (int64_t)(from->memory_gbs * sms));
    made->memory_bytes = (int)max_i64(1, (int64_t)(from->memory_bytes * sms / clocks));
    return with_machine(arena, target, made);
}

const Target *target_on_card(Arena *arena, const char *name, const Target **nearest)
{
    const char *at = strchr(name, '@');
    size_t n = at ? (size_t)(at - name) : strlen(name);
    const Target *target = *nearest = target_find(arena_strndup(arena, name, n));
    if (!at || !target) {
        return target;
    }
    for (int i = 0; i < N_MACHINES; i++) {
        bool found = text_equal(MACHINES[i].target, target->name);
        if (found && text_equal(MACHINES[i].name, at + 1)) {
            return with_machine(arena, target, &MACHINES[i]);
        }
    }
    int num_sms, clock, end = 0;
    bool scaled = sscanf(at + 1, "%4dx%5d%n", &num_sms, &clock, &end) == 2 && !at[1 + end] &&
                  num_sms > 0 && num_sms <= MAX_SMS && clock > 0 && clock <= MAX_CLOCK &&
                  target->family != FAMILY_CPU;
    return scaled ? with_scaled(arena, target, num_sms, clock) : NULL;
}

/* Does a driver describe this card? Its full title is enough; of a part of the name the
 * multiprocessors must agree ("A40" is in "A4000"). A MIG instance is only a part of a card. */
static bool describes(const Machine *machine, const char *device, int num_sms)
{
    bool titled = strstr(device, machine->title) && !strstr(device, " MIG ");
    bool named = *machine->match && strstr(device, machine->match);
    return titled || (named && (!num_sms || machine->num_sms == num_sms));
}

const Target *target_of_device(Arena *arena, const Target *target, const char *device, int num_sms,
                               int clock)
{
    const Machine *found = NULL;
    for (int i = 0; i < N_MACHINES; i++) {
        const Machine *machine = &MACHINES[i];
        bool fits =
            text_equal(machine->target, target->name) && describes(machine, device, num_sms);
        /* Of several, the longest part of the name: "H100 PCIe" before "H100". */
        found = fits && (!found || strlen(machine->match) > strlen(found->match)) ? machine : found;
    }
    if (found) {
        return with_machine(arena, target, found);
    }
    bool scales = target->family != FAMILY_CPU && num_sms > 0;
    return scales ? with_scaled(arena, target, num_sms, clock ? clock : target->machine->clock)
                  : target;
}
