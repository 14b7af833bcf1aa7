/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of a launch: as many at once as on a small device; their warps run alternately for
 * random lengths of time. A block begins when an earlier one has ended. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESIDENT_WARPS = 32, LONGEST_TURN = 300 };
#define MAX_STEPS UINT64_C(3000000000)

static Cluster *cluster_new(const Kernel *kernel, unsigned first, int n, int shared)
{
    Cluster *cluster = calloc(1, sizeof *cluster);
    cluster->n = n;
    for (int i = 0; i < n; i++) {
        Block *block = calloc(1, sizeof *block);
        cluster->blocks[i] = block;
        block->kernel = kernel;
        block->cluster = cluster;
        block->id = first + (unsigned)i;
        block->rank = i;
        block->shared_size = shared;
        block->shared = malloc(SHARED_FIRST + (size_t)shared + 8);
        poison(block->shared, SHARED_FIRST + (size_t)shared);
        size_t parts = (SHARED_FIRST + (size_t)shared) / 16 + 2;
        block->written = calloc(parts, sizeof *block->written);
        block->writers = calloc(parts, sizeof *block->writers);
        block->n_warps = block->alive = (kernel->threads + LANES - 1) / LANES;
        block->reads = calloc(parts * (size_t)block->n_warps, sizeof *block->reads);
        cluster->alive += block->n_warps;
        for (int w = 0; w < block->n_warps; w++) {
            block->warps[w] = warp_new(block, w);
        }
    }
    return cluster;
}

static uint64_t cluster_free(Cluster *cluster)
{
    uint64_t steps = 0;
    for (int i = 0; i < cluster->n; i++) {
        Block *block = cluster->blocks[i];
        for (int w = 0; w < block->n_warps; w++) {
            steps += block->warps[w]->steps;
            warp_free(block->warps[w]);
        }
        free(block->shared);
        free(block->written);
        free(block->writers);
        free(block->reads);
        free(block);
    }
    free(cluster);
    return steps;
}

static bool cluster_run(Cluster *cluster)
{
    bool done = false;
    for (int i = 0; i < cluster->n; i++) {
        Block *block = cluster->blocks[i];
        for (int w = 0; w < block->n_warps; w++) {
            if (block->warps[w]->live) {
                done |= warp_run(block->warps[w], 1 + (int)random_below(LONGEST_TURN));
            }
        }
    }
    return done;
}

_Noreturn static void stop_all(Cluster *const *clusters, int n)
{
    for (int c = 0; c < n; c++) {
        for (int i = 0; i < clusters[c]->n; i++) {
            const Block *block = clusters[c]->blocks[i];
            for (int w = 0; w < block->n_warps; w++) {
                const Warp *warp = block->warps[w];
                for (int s = 0; warp->live && s < warp->n_splits; s++) {
                    const Inst *inst = &block->kernel->code[warp->splits[s].pc];
                    fprintf(stderr, "emulator: block %u, warp %d, lanes %08x wait in line %d, %s\n",
                            block->id, w, warp->splits[s].mask, inst->line, inst->text);
                }
            }
        }
    }
    fprintf(stderr, "emulator: %s: nothing can go on\n", clusters[0]->blocks[0]->kernel->name);
    exit(1);
}

uint64_t launch_grid(const Kernel *kernel, unsigned blocks, int threads, int shared, int cluster)
{
    enum { MAX_RESIDENT = 64 };
    Cluster *resident[MAX_RESIDENT];
    int n = 0, warps = (threads + LANES - 1) / LANES * cluster;
    int most = RESIDENT_WARPS / warps < 3 ? 3 : RESIDENT_WARPS / warps;
    unsigned next = 0;
    uint64_t steps = 0, rounds = 0;
    while (next < blocks || n > 0) {
        while (n < most && next < blocks) {
            resident[n++] = cluster_new(kernel, next, cluster, shared);
            next += (unsigned)cluster;
        }
        bool done = false;
        for (int i = 0; i < n; i++) {
            done |= cluster_run(resident[i]);
        }
        if (!copies_deliver(!done) && !done) {
            stop_all(resident, n);
        }
        for (int i = n - 1; i >= 0; i--) {
            if (resident[i]->alive == 0) {
                while (copies_deliver(true)) {}
                steps += cluster_free(resident[i]);
                resident[i] = resident[--n];
            }
        }
        if (++rounds * LONGEST_TURN > MAX_STEPS) {
            fprintf(stderr, "emulator: %s: it does not end\n", kernel->name);
            exit(1);
        }
    }
    return steps;
}
