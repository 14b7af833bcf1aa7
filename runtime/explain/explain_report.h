/* SPDX-License-Identifier: Apache-2.0 */
/* The report about a compiled kernel, built once from its final IR, its plan and its machine code;
 * text, JSON and HTML are three ways to write it. Numbers of an access are totals over its launch
 * for the given sizes. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_REPORT_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_REPORT_H

#include "ir/ir.h"
#include "ir/layout/layout.h"
#include "ir/layout/matrix_instr.h"
#include "ir/target/device_specs.h"
#include "ir/target/target.h"
#include "runtime/device/plan.h"

/* ---- what it is made from ---- */

/* A text with the line of the source that each of its lines comes from; 0: none is known. */
typedef struct Listing {
    const char *name, *text; /* "tile", "PTX" */
    int *lines;
    int n;
    bool unchanged; /* a pass that changed nothing */
} Listing;

typedef struct Listings {
    Listing *items;
    size_t n, cap;
} Listings;

/* Fills `lines` from the debug information that its text carries; `source`: the source's name. */
void listing_lines_of_code(Arena *arena, const char *source, Listing *listing);

/* What the assembler says of a launch. */
typedef struct AssemblerInfo {
    const char *symbol;
    int registers, spilled; /* of a thread: 32-bit registers; bytes */
    int scalars;            /* AMD: registers of a wave */
    int shared;             /* bytes of a block that are not given at launch */
} AssemblerInfo;

typedef struct ReportInput {
    Func *func; /* staged */
    const Plan *plan;
    const int64_t *sizes; /* by DimVar.id, -1 where not given */
    double product_flops; /* of the source; 0: not known */
    int source;           /* of func->diags */
    const char *schedule; /* with reasons */
    const char *variant;  /* what launches have that this code is for: "N % 8 == 0", "any size" */
    bool brief;           /* for report_predict: shared memory is not counted, */
    bool sampled;         /* or it is; few rounds of loops are looked at in any case */
    Listings listings;    /* passes, then LLVM, then assembly */
    struct {
        AssemblerInfo *items;
        size_t n, cap;
    } assembled;
} ReportInput;

/* ---- what it says ---- */

typedef enum Traffic {
    LOADS,
    STORES,
    ATOMICS,
    SHARED_LOADS,
    SHARED_STORES,
    SHARED_ATOMICS,
    BULK_LOADS,
    BULK_STORES,
    COPIES, /* by threads, past their registers */
    N_TRAFFIC,
} Traffic;
const char *traffic_name(Traffic kind); /* "load" */
bool traffic_is_shared(Traffic kind);
bool traffic_is_bulk(Traffic kind);

enum { MAX_SHARED_BANKS = 64, MAX_LANES = 64 };

/* One access of one warp, kept to be drawn. */
typedef struct WarpRequest {
    int lanes;             /* of a warp */
    int banks;             /* of shared memory */
    int bytes;             /* of a lane */
    bool pairs;            /* NVIDIA's loads: lanes that agree let groups of lanes come as one */
    uint64_t active;       /* a bit a lane */
    int64_t at[MAX_LANES]; /* bytes from where the memory begins */
} WarpRequest;

typedef struct AccessReport {
    const Op *op;
    Traffic kind;
    const char *memory, *what; /* "x"; "reduce", the op's name */
    const Value *value;        /* of the memory */
    int line;                  /* of the source */
    int bytes;                 /* of a thread's access */
    const char *why_width, *guard;
    double requests;                /* of warps */
    double sectors;                 /* of global memory */
    double first;                   /* turns of the first-level cache */
    double least_sectors;           /* that would do for these bytes */
    double wavefronts, least_turns; /* of shared memory: wavefronts */
    double moved;                   /* bytes that threads, or the copy engine, ask for */
    bool assumed;                   /* places that depend on data: taken as spread evenly */
    WarpRequest sample;             /* the one of most turns, or sectors; no lanes: none */
    int sample_turns;
} AccessReport;

typedef struct BufferReport {
    const char *name;
    const Value *value;
    int offset, bytes, slots, swizzle;
    int line;
} BufferReport;

typedef struct TileReport {
    const Layout *layout;
    const Value *value; /* the first that lies so */
    int n;              /* values that lie so */
} TileReport;

typedef enum Limit {
    LIMIT_WARPS,
    LIMIT_BLOCKS,
    LIMIT_REGISTERS,
    LIMIT_SHARED,
    LIMIT_GRID, /* there are fewer blocks than would fit */
    N_LIMIT,
} Limit;
const char *limit_name(Limit limit);

typedef struct Occupancy {
    bool known;          /* the target has a part */
    int blocks[N_LIMIT]; /* of a multiprocessor that each limit allows; LIMIT_GRID: unused */
    int resident, warps; /* blocks and warps at once of a multiprocessor */
    double share;        /* of the warps it may hold */
    Limit limit;
    double waves; /* rounds of resident blocks; 0: the grid is not known */
} Occupancy;

typedef struct Roofline {
    double matrix_work;                 /* as if of 16 bits */
    double matrix_flops, flops;         /* on matrix units, and without */
    double read, written;               /* bytes, each tensor once: the least */
    double written_in_parts;            /* bytes of sectors, of which memory brings the rest */
    double asked_read, asked_written;   /* bytes that the accesses ask of L2 */
    double memory_read, memory_written; /* bytes that memory is expected to move, L2 empty before */
    double memory_seconds, compute_seconds;
    double intensity; /* FLOP a byte, of the least */
    bool memory_bound;
} Roofline;

/* Of the last product of a launch. */
typedef struct ProductReport {
    const Op *op; /* NULL: the launch has none */
    int n;        /* products of the launch */
    bool alike;   /* all of them are of one loop and one shape */
    int ops;      /* on each element of its result */
    const char *unit;
    const MatrixInstr *instruction; /* NULL: fma */
    int64_t m, n_columns;           /* of its tile; 0: not a matrix */
    int slots;                      /* of the rings that it reads; 0: none */
    int64_t slot_bytes;
    int64_t tiles;
    double waves,
        tail;      /* tiles a multiprocessor (or a place for a block); share of all that idle in
                           the last wave */
    bool modelled; /* the following is known by the model; else it is a bound */
    double share;  /* of the roofline */
    double cycles; /* of all, by the model */
    const char *limiter; /* NULL: nothing is known */
} ProductReport;

/* What a CPU's loops go through; 0 of GPUs. */
typedef struct CpuReport {
    double walked; /* bytes of tiles: a loop for each that is reduced or stored */
    double waits;  /* cycles that folding element by element would wait for the one before */
    double packed; /* bytes of operands that are laid out for products */
    double begun;  /* bytes at the beginnings of runs, which no prefetch brings */
    double lines;  /* bytes of cache lines that walks across rows bring from the second level, */
    double far;    /* and from beyond */
} CpuReport;

typedef struct LaunchReport {
    const PlanLaunch *plan;
    const Op *op;
    const char *tiles;              /* "M by 128, N by 256" */
    const char *why;                /* it is a launch of its own */
    const AssemblerInfo *assembled; /* NULL: not known */
    int warps, shared_bytes;        /* of a block */
    int64_t blocks;                 /* -1: not known */
    int line;
    bool uncertain;     /* branches or loops whose course depends on data */
    bool data_loops;    /* some of them are loops: all numbers are of one round of each */
    int data_loop_line; /* of the first one; 0: not known */
    struct {
        AccessReport *items;
        size_t n, cap;
    } accesses;
    struct {
        BufferReport *items;
        size_t n, cap;
    } buffers;
    struct {
        TileReport *items;
        size_t n, cap;
    } tiles_held;
    Occupancy occupancy;
    Roofline roofline;
    ProductReport product;
    CpuReport host;
    double predicted;    /* seconds, by the model; 0: not known */
    const char *limiter; /* what takes most of them; NULL: not known */
    struct {
        const char **items;
        size_t n, cap;
    } advice;
} LaunchReport;

typedef struct Report {
    const ReportInput *input;
    const Target *target;
    const DeviceSpec *part; /* NULL: a CPU */
    bool sized;             /* all sizes were given, so that there are totals */
    LaunchReport *launches;
    int n_launches;
} Report;

void report_make(const ReportInput *input, Report *report);
/* Sum over the accesses of one kind; `field` is an offset into AccessReport. */
double launch_total(const LaunchReport *launch, Traffic kind, size_t field);
#define LAUNCH_TOTAL(launch, kind, field)                                                          \
    launch_total((launch), (kind), offsetof(AccessReport, field))

/* What a launch may take of the time of a report: many launches take no longer than few. */
double report_share(const Report *report);
/* Seconds that all launches take, by the model (predict.c): schedules are ranked by it. And the
 * least that memory and arithmetic of the part allow. 0: not known; of a CPU both are about a
 * nominal one. */
typedef struct Predicted {
    double seconds, roof;
} Predicted;
Predicted report_predict(const Report *report, int threads);

/* ---- writers ---- */

void report_text(const Report *report, Text *out);
void report_json(const Report *report, Text *out);
void report_html(const Report *report, Text *out);

#endif
