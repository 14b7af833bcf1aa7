/* SPDX-License-Identifier: Apache-2.0 */
/* Maps each finding to the schedule entries that may remedy it, and phrases hints. */
#include "runtime/explain/explain_hints.h"

#include "runtime/explain/explain_words.h"

#include <string.h>

/* What may mend a finding by another schedule: keys, the most promising first. */
static const char *const FINDING_KEYS[N_FINDING] = {
    [FINDING_SPILLS] = "tile warps occupancy",
    [FINDING_SECTORS] = "tile warps vector",
    [FINDING_CONFLICTS] = "tile warps vector",
    [FINDING_NARROW] = "tile",
    [FINDING_IDLE] = "tile split_k cluster warps",
    [FINDING_TAIL] = "tile persistent split_k",
    [FINDING_REREAD] = "tile raster multicast swap_ab",
    [FINDING_ORDINARY] = "tile warps pipeline",
    [FINDING_FAR] = "tile split_k warps occupancy cluster pipeline",
    [FINDING_MATRIX] = "tile warps pipeline raster split_k persistent swap_ab",
    [FINDING_MEMORY] = "tile warps cluster occupancy pipeline vector",
    [FINDING_ARITHMETIC] = "tile warps occupancy",
};

static const char *const KINDS[N_HINT] = {"schedule", "fact", "size", "source"};

const char *hint_kind_name(HintKind kind)
{
    return KINDS[kind];
}

static const LaunchReport *slowest(const Report *report)
{
    const LaunchReport *found = NULL;
    for (int i = 0; i < report->n_launches; i++) {
        const LaunchReport *launch = &report->launches[i];
        found = !found || launch->predicted > found->predicted ? launch : found;
    }
    return found;
}

static void add_keys(Arena *arena, const LaunchReport *launch, HintKeys *keys)
{
    for (size_t i = 0; i < launch->notes.n; i++) {
        for (const char *at = FINDING_KEYS[launch->notes.items[i].finding]; *at;) {
            size_t n = strcspn(at, " ");
            const char *key = arena_strndup(arena, at, n);
            bool known = false;
            for (size_t k = 0; k < keys->n; k++) {
                known = known || text_equal(keys->items[k], key);
            }
            if (!known) {
                ARENA_PUSH(arena, keys, key);
            }
            at += n + strspn(at + n, " ");
        }
    }
}

HintKeys hint_keys(const Report *report)
{
    HintKeys keys = {0};
    Arena *arena = report->input->func->arena;
    const LaunchReport *first = slowest(report);
    if (first) {
        add_keys(arena, first, &keys);
    }
    for (int i = 0; i < report->n_launches; i++) {
        add_keys(arena, &report->launches[i], &keys);
    }
    return keys;
}

double hint_gain(const Hint *hint)
{
    return hint->before > 0 ? 1 - hint->after / hint->before : 0;
}

void hint_words(const Report *report, const Hint *hint, Text *out)
{
    text_printf(out, "%s: the model expects ", hint->line);
    seconds_words(out, hint->after);
    text_add(out, " instead of ");
    seconds_words(out, hint->before);
    text_printf(out, "%s (-%.0f %%)", report->n_launches > 1 ? " of all launches" : "",
                100 * hint_gain(hint));
}
