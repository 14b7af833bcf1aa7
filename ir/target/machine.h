/* SPDX-License-Identifier: Apache-2.0 */
/* Machines: what a card of a target can do, for the cost models of the passes and for reports. The
 * rows are in machines.def, with the source of each number. A target names its default card, for
 * which code is made ahead of time; `sm_90a@h100` names another one, and `sm_90a@78x1755` the
 * default card with so many multiprocessors and MHz. */
#ifndef TESSERA_IR_TARGET_MACHINE_H
#define TESSERA_IR_TARGET_MACHINE_H

typedef struct Machine {
    const char *name, *target; /* "h200"; the target whose code it runs: "sm_90a" */
    const char *title;         /* "NVIDIA H200" */
    const char *match;         /* part of the driver's name of the device; with num_sms it tells
                                * one card from others of the target */
    const char *source;        /* where the numbers come from, by the letters of machines.def */
    int num_sms;               /* multiprocessors (compute units); CPU: 1 */
    int clock;                 /* MHz, at most */
    int matrix_clock;          /* MHz for which the data sheet states the matrix units' rate */

    /* Of a multiprocessor, per cycle. */
    int product64, product32; /* FLOP of the matrix units: f64; f32, on NVIDIA tf32 */
    int product16, product8;  /* the same: f16 and bf16; i8 and 8-bit floats */
    int lanes;                /* lanes that execute an f32 op (fma: 2 FLOP) */
    int mufu_lanes;           /* lanes that execute exp2, rsqrt, … */
    int shared_bytes;         /* bytes from shared memory */
    int l1_bytes, l2_bytes;   /* bytes from L1; from L2 */
    int dsmem_bytes;          /* bytes to the shared memory of other blocks of a cluster */
    int fetch_bytes; /* bytes of instructions that come from beyond the instruction cache */

    /* Of the device. */
    int memory_gbs;     /* GB/s of global memory, by the data sheet; CPU: that a core reaches */
    int memory_bytes;   /* bytes per cycle that the cost models expect of it */
    int l1_kib, l2_mib; /* L1 with shared memory, of a multiprocessor; L2 of the device */
    int cluster_spare;  /* multiprocessors that clusters of more than 2 blocks cannot all use */

    /* Latencies and overheads. */
    int l1_latency, l2_latency; /* cycles of a hit in L1; of L2 or memory, under load */
    int memory_latency;         /* nanoseconds of global memory, under load */
    int step_overhead;          /* cycles per step of a loop of dots in addition to its copies and
                                 * multiplications */
    int start;       /* cycles from the end of a launch to the first dot of the next one */
    int host_cycles; /* cycles between two launches that the host starts one by one */

    /* CPUs: a core takes the place of a multiprocessor. */
    int issue;                            /* operations per cycle and lane */
    int core_l1_kib, core_l2_kib, l3_mib; /* caches that a core's tiles may use */
    int l1_gbs, l2_gbs, l3_gbs;           /* GB/s of a core from its caches */
    int pack_gbs;                         /* of packing operands of dots */
    int run_gbs;                          /* bytes that could be read while a run begins */
    int line_gbs, far_line_gbs;           /* lines of L2, and of what is beyond it */
    int block_ns, launch_ns;              /* of each block and launch */
} Machine;

enum {
#define MACHINE(id, ...) CARD_##id,
#include "ir/target/machines.def"
#undef MACHINE
    N_MACHINES
};
extern const Machine MACHINES[N_MACHINES];

/* Peak FLOP/s with and without the matrix units: f16 and bf16; f32. */
double machine_flops16(const Machine *machine);
double machine_flops32(const Machine *machine);

#endif
