/* SPDX-License-Identifier: Apache-2.0 */
/* Applies user-specified schedule entries other than tile sizes to a launch that the source tiles
 * itself; tile_emit_launch.c does the same for derived launches. */
#include "passes/tile/tile_hand_tiled.h"

/* Entries that are a number of the launch: the attribute has it from 2 on. */
static const struct {
    const char *key, *sub;
    AttrKey attr;
} NUMBERS[] = {
    {"occupancy", "", ATTR_OCCUPANCY},
    {"raster", "grouped", ATTR_RASTER_GROUP},
    {"align", "", ATTR_ALIGNED},
};

/* Neighbours along an axis that load together what they share. */
static void set_multicast(Func *func, Op *parallel)
{
    const Attr *steps = op_attr(parallel, ATTR_STEPS);
    int64_t blocks[MAX_RANK * 2];
    bool any = false;
    for (int i = 0; i < steps->n; i++) {
        const Value *arg = parallel->regions[0]->args[i];
        const DimVar *range = steps->ints[i] ? poly_as_range(arg->type->dims[0]) : NULL;
        const ScheduleEntry *line =
            range && range->name ? schedule_user_entry(func, "multicast", range->name) : NULL;
        blocks[i] = line && line->number > 1 ? line->number : 1;
        any = any || blocks[i] > 1;
    }
    if (any && func->target->cluster > 1) {
        op_set_ints(func, parallel, ATTR_MULTICAST, steps->n, blocks);
    }
}

void tile_source_entries(Func *func, Op *parallel)
{
    for (size_t i = 0; is_gpu(func) && i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        const ScheduleEntry *line = schedule_user_entry(func, NUMBERS[i].key, NUMBERS[i].sub);
        if (line && line->number > 1) {
            op_set_int(func, parallel, NUMBERS[i].attr, line->number);
        }
    }
    if (is_gpu(func)) {
        set_multicast(func, parallel);
    }
}
