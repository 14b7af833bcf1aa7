/* SPDX-License-Identifier: Apache-2.0 */
/* Machines: what a card of a target can do, for the cost models of the passes and for reports. The
 * rows are in machines.def, with the source of each number. A target names its default card, for
 * which code is made ahead of time; `sm_90a@h100` names another one, and `sm_90a@78x1755` the
 * default card with this many multiprocessors and MHz. */
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
    int warp_percent;         /* of these rates that instructions of single warps reach; 0: all */
    int lanes;                /* lanes that execute an f32 op (fma: 2 FLOP) */
    int l2_bytes;             /* bytes from L2 */
    int l2_loaded_bytes;      /* the same while all multiprocessors ask L2 */
    int dsmem_bytes;          /* bytes to the shared memory of other blocks of a cluster */
    int fetch_bytes; /* bytes of instructions that come from beyond the instruction cache */

    /* Of the device. */
    int memory_gbs;     /* GB/s of global memory, by the data sheet; CPU: that a core reaches */
    int memory_bytes;   /* bytes per cycle that the cost models expect of it */
    int memory_percent; /* of memory_gbs that the best launches reach */
    int l1_kib, l2_mib; /* L1 with shared memory, of a multiprocessor; L2 of the device */
    int l2_percent;     /* of L2 that keeps what a launch reads again */
    int cluster_spare;  /* multiprocessors that clusters of more than 2 blocks cannot all use */

    /* Latencies and overheads. */
    int l1_latency, l2_latency; /* cycles of a hit in L1; of L2 or memory, under load */
    int memory_latency;         /* nanoseconds of global memory, under load */
    int step_overhead;          /* cycles per step of a loop of dots in addition to its copies and
                                 * multiplications */
    int start;       /* cycles from the end of a launch to the first dot of the next one */
    int host_cycles; /* cycles between two launches that the host starts one by one */
    int dot_drain;      /* cycles until the first result of a tile's last dot is there */
    int multicast_step; /* more cycles of a step of blocks in a multicast group, which wait for one
                         * another */
    int cluster_sync;   /* cycles until the results of a cluster's last block are there */
    int tail_start;     /* cycles until a launch that began early has its first operands */
    int early_start;    /* cycles that a dependent launch saves by beginning early */
    int uneven_percent, uneven_l2_percent; /* blocks that begin at different times lose this many
                         * percent of what they wait for L2, where that is this many percent of what
                         * the matrix units take, or more */
    int chain_step;  /* cycles per step of dots that depend on one another: barriers, waits */
    int chain_tile;  /* cycles of a tile of such dots that begins and ends by itself */
    int barrier;     /* cycles to store to shared memory and synchronize a block */
    int combine;     /* cycles until the threads of a block have combined what each has */
    int cluster_combine;       /* the same of the blocks of a cluster */
    int block_start;           /* cycles until a block executes its first load */
    int block_next;            /* cycles from the start of a block to that of the next one */
    int load_ns, next_load_ns; /* until a block's first loads arrive; those of its next step */
    int store_ns;              /* until a block's stores are done */
    int begin_bytes;           /* that memory moves while a block of the device begins */

    /* CPUs: a core takes the place of a multiprocessor. */
    int issue;                            /* operations per cycle and lane */
    int core_l1_kib, core_l2_kib, l3_mib; /* caches that a core's tiles may use */
    int line_bytes, l1_ways, l2_ways;     /* of a cache line; lines of a set */
    int tlb_pages;                        /* pages whose addresses a core keeps */
    int run_bytes;                        /* of a run until the core prefetches it */
    int add_latency, max_latency;         /* cycles of an f32 sum; of a maximum that keeps NaN */
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

/* FLOP per cycle of a multiprocessor's matrix unit on operands of this many bytes, or of bits;
 * where the row has no such rate, it is that of 16 bits by their width. */
double machine_product(const Machine *machine, int bytes);
/* The part of it that instructions of single warps reach. */
double machine_warp_share(const Machine *machine);
/* The part of memory's rate that the best launches reach which this many bytes in flight of a
 * multiprocessor are enough for: its fraction of the rate times the latency (Little's law). */
double machine_memory_reached(const Machine *machine, double in_flight);
/* Peak FLOP/s with and without the matrix units: f16 and bf16; f32. */
double machine_flops16(const Machine *machine);
double machine_flops32(const Machine *machine);

#endif
