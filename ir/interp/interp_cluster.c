/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over the blocks of a cluster; each block gets the whole result or a slice of it. The
 * interpreter runs blocks one after the other: a block that reaches a reduction records its
 * partial result and stops. When all have done so, they are restarted and find the result. A block
 * repeats what it did before it stopped, so it may store there, but not add. */
#include "ir/interp/interp_reduce.h"

#include <string.h>

/* What the blocks of one cluster have for one reduction. */
typedef struct ClusterParts {
    int64_t cluster;
    int met;
    int64_t known;
    Array **parts; /* by place in the cluster */
} ClusterParts;

void cluster_begin(InterpRun *run, const Op *launch, int64_t blocks)
{
    Cluster *cluster = ARENA_NEW(run->arena, Cluster);
    cluster->size = op_int(launch, ATTR_CLUSTER, 1);
    cluster->done = ARENA_ARRAY(run->arena, bool, blocks + 1);
    run->cluster = cluster;
}

void cluster_block(InterpRun *run, int64_t id)
{
    run->cluster->block = id;
    run->cluster->met = 0;
    run->cluster->left = false;
}

bool cluster_left(const InterpRun *run)
{
    return run->cluster && run->cluster->left;
}

void cluster_block_end(InterpRun *run)
{
    if (run->cluster && !cluster_left(run)) {
        run->cluster->done[run->cluster->block] = true;
    }
}

static bool same_parts(const void *item, const void *key)
{
    const ClusterParts *a = item, *b = key;
    return a->cluster == b->cluster && a->met == b->met;
}

static ClusterParts *parts_here(InterpRun *run)
{
    Cluster *cluster = run->cluster;
    ClusterParts key = {.cluster = cluster->block / cluster->size, .met = cluster->met++};
    uint64_t hash = hash_word(hash_word(0, (uint64_t)key.cluster), (uint64_t)key.met);
    ClusterParts *found = table_find(&cluster->parts, hash, same_parts, &key);
    if (!found) {
        key.parts = ARENA_ARRAY(run->arena, Array *, cluster->size);
        found = arena_copy(run->arena, &key, sizeof key);
        table_add(run->arena, &cluster->parts, hash, found);
    }
    return found;
}

/* [blocks, elements of a part] */
static Array *joined(InterpRun *run, const ClusterParts *parts, int64_t size)
{
    const Array *first = parts->parts[0];
    int64_t dims[2] = {size, first->n};
    Array *all = array_new(run, first->dtype, 2, dims);
    size_t bytes = (size_t)first->n * (size_t)dtype_bytes(first->dtype);
    for (int64_t k = 0; k < size; k++) {
        memcpy(array_at(all, k * first->n), array_plane(parts->parts[k], -1), bytes);
    }
    for (int64_t k = 0; k < size; k++) {
        const Array *part = parts->parts[k];
        if (part->poison) {
            array_want_poison(run, all);
            memcpy(all->poison->bytes + k * first->n, part->poison->bytes, (size_t)first->n);
        }
        if (part->samples) {
            array_want_samples(run, all);
        }
    }
    for (int64_t k = 0; k < size && all->samples; k++) {
        for (int sample = 0; sample < SAMPLES; sample++) {
            unsigned char *to = array_plane(all, sample);
            memcpy(to + (size_t)k * bytes, array_plane(parts->parts[k], sample), bytes);
        }
    }
    return all;
}

/* What all blocks have, folded; NULL: some have not come here yet, and the block has stopped. */
static Array *met(InterpRun *run, const Op *op)
{
    Cluster *cluster = run->cluster;
    Array *from = run_operand(run, op, 0);
    if (op->n_operands > 1) {
        interp_scratch(run, op, op_access(op, 1));
    }
    ClusterParts *parts = parts_here(run);
    Array **mine = &parts->parts[cluster->block % cluster->size];
    parts->known += !*mine;
    *mine = *mine ? *mine : array_keep(from);
    if (parts->known < cluster->size) {
        cluster->left = cluster->waiting = true;
        /* The block stops here and runs again from its start once the other blocks have their
         * parts. */
        Frame *frame = &run->agent->frames.items[run->agent->frames.n - 1];
        while (frame->op && frame->op->kind == OP_FOR) {
            drop_block(run, frame->block);
            run->agent->frames.n--;
            frame--;
        }
        frame->at = NULL;
        return NULL;
    }
    Array *all = joined(run, parts, cluster->size);
    Axes axes = reduce_axes(run, op, all);
    axes.outer = 1;
    axes.len = all->dims[0];
    axes.inner = all->dims[1];
    Array *to = array_of_type(run, op, op->operands[0]->type);
    reduce_into(run, op, &axes, all, to);
    array_drop(run, all);
    return to;
}

void interp_cluster_reduce(InterpRun *run, const Op *op)
{
    Array *all = met(run, op);
    if (all) {
        run_result(run, op, 0, all);
    }
}

/* Elements of one plane from `first` on along the axis, `size` bytes each. */
static void copy_part(const Array *from, const unsigned char *in, Array *to, unsigned char *out,
                      int axis, int64_t first, int64_t size)
{
    int64_t outer = 1, inner = size;
    for (int i = 0; i < from->rank; i++) {
        outer *= i < axis ? from->dims[i] : 1;
        inner *= i > axis ? from->dims[i] : 1;
    }
    int64_t row = from->dims[axis] * inner, part = to->dims[axis] * inner;
    for (int64_t i = 0; i < outer && part > 0; i++) {
        memcpy(out + i * part, in + i * row + first * inner, (size_t)part);
    }
}

void interp_cluster_scatter(InterpRun *run, const Op *op)
{
    Array *all = met(run, op);
    if (!all) {
        return;
    }
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int64_t size = dtype_bytes(all->dtype);
    int64_t first =
        run->cluster->block % run->cluster->size * poly_capacity(op->results[0]->type->dims[axis]);
    Array *to = array_of_type(run, op, op->results[0]->type);
    copy_part(all, array_plane(all, -1), to, array_plane(to, -1), axis, first, size);
    if (all->poison) {
        array_want_poison(run, to);
        copy_part(all, all->poison->bytes, to, to->poison->bytes, axis, first, 1);
    }
    if (all->samples) {
        array_want_samples(run, to);
    }
    for (int sample = 0; sample < SAMPLES && all->samples; sample++) {
        copy_part(all, array_plane(all, sample), to, array_plane(to, sample), axis, first, size);
    }
    array_drop(run, all);
    run_result(run, op, 0, to);
}
