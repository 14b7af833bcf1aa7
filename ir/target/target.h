/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about targets, one row each. Passes read facts and never compare a target's name. */
#ifndef TESSERA_IR_TARGET_TARGET_H
#define TESSERA_IR_TARGET_TARGET_H

#include "ir/target/machine.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum TargetFamily { FAMILY_CPU, FAMILY_NVPTX, FAMILY_AMDGCN } TargetFamily;

struct Target {
    const char *name; /* sm_90a, gfx942, x86-64-v4, native */
    TargetFamily family;
    const char *triple, *cpu, *features;
    int warp;               /* lanes of a warp (wave); CPU: 1 */
    int max_threads;        /* maximum threads of a block */
    int sm_threads;         /* threads that a multiprocessor runs at once */
    int sm_blocks;          /* blocks that a multiprocessor runs at once */
    int sm_wide_blocks;     /* the same, of blocks of more than one warp */
    int shared_bytes;       /* maximum bytes of shared memory per block */
    int shared_reserved;    /* bytes of shared memory that a multiprocessor reserves per block */
    int shared_step;        /* granularity in which shared memory is allocated to a block */
    int sector_bytes;       /* bytes of the smallest memory transfer */
    int shared_row;         /* bytes that all banks of shared memory deliver at once: the longest
                             * row of a swizzled tile */
    int registers;          /* 32-bit registers of a multiprocessor */
    int registers_thread;   /* maximum registers per thread */
    int register_step;      /* granularity in which registers are allocated to a thread */
    int register_margin;    /* registers that ptxas takes for a thread beyond those that sm_90a
                             * has in the same code: measured on the examples */
    int schedulers;         /* of a multiprocessor; each has a part of the registers */
    const Machine *machine; /* the card: its multiprocessors, clocks and rates */
    const char *spelling;   /* NULL: the name; else the name with a card that is not the default */
    int cluster;            /* maximum blocks of a cluster; 1: the target has no clusters */
    int portable_cluster;   /* the same on every device of the target */
    int vector_bytes;       /* bytes of the widest access of a thread (CPU: of a vector register) */
    int group_warps;        /* warps of a warp group, between which registers move and whose
                             * instructions multiply together; 1: no warp groups */
    bool has_bulk_copy;     /* tensor copies by descriptor (TMA) that complete mbarriers */
    int bulk_box, bulk_rank; /* of them: maximum extent of a box along an axis, maximum axes */
    bool has_setmaxnreg;     /* registers move between warps of a block (setmaxnreg) */
    int setmaxnreg_min;      /* minimum registers of a thread then */
    bool has_packed_minmax;  /* two pairs of 16-bit floats are compared at once */
    int code_bytes;          /* of a launch's hot code, beyond which the instruction cache misses;
                              * 0: not known */
    int async_copy_bytes;    /* asynchronous copies (cp.async): sum of the sizes 4, 8 and 16 */
};

enum { SHARED_WORD_BYTES = 4 }; /* that one bank of shared memory delivers at once */

/* The target with its default card; NULL when there is none. machine.h has those with others. */
const struct Target *target_find(const char *name);
/* Warps that a multiprocessor runs at once. */
int target_warps(const struct Target *target);
/* All rows, in order. */
const struct Target *target_rows(size_t *n);

#endif
