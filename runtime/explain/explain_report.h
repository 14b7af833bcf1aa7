/* SPDX-License-Identifier: Apache-2.0 */
/* The report about a compiled kernel, built once from its final IR, its plan and its machine code;
 * text, JSON and HTML are three ways to write it. Numbers of an access are totals over its launch
 * for the given sizes. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_REPORT_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_REPORT_H

#include "ir/ir.h"
#include "ir/layout/layout.h"
#include "ir/layout/matrix_instr.h"
#include "ir/target/machine.h"
#include "ir/target/target.h"
#include "passes/analysis/code_size.h"
#include "passes/analysis/dot_cost.h"
#include "runtime/device/plan.h"

/* ---- input ---- */

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

/* Resources of a launch as the assembler reports them. */
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
    const char *variant;  /* what the code assumes of a launch: "N % 8 == 0", "any size" */
    bool brief;           /* for report_predict: few iterations of loops are sampled, and shared */
    bool sampled;         /* memory is not counted, or (sampled) it is */
    Listings listings;    /* passes, then LLVM, then assembly */
    struct {
        AssemblerInfo *items;
        size_t n, cap;
    } assembled;
} ReportInput;

/* ---- the report ---- */

typedef enum Traffic {
    LOADS,
    STORES,
    ATOMICS,
    SHARED_LOADS,
    SHARED_STORES,
    SHARED_ATOMICS,
    BULK_LOADS,
    BULK_STORES,
    COPIES, /* asynchronous copies by threads */
    N_TRAFFIC,
} Traffic;
const char *traffic_name(Traffic kind); /* "load" */
bool traffic_is_shared(Traffic kind);
bool traffic_is_bulk(Traffic kind);

enum { MAX_SHARED_BANKS = 64 };

/* One access of one warp, which the HTML page draws. */
typedef struct WarpRequest {
    int lanes;             /* of a warp */
    int banks;             /* of shared memory */
    int bytes;             /* of a lane */
    bool pairs;            /* NVIDIA's loads: lanes with equal addresses merge groups of lanes */
    uint64_t active;       /* one bit for each lane */
    int64_t at[MAX_LANES]; /* byte offset in the memory */
} WarpRequest;

typedef struct AccessReport {
    const Op *op;
    Traffic kind;
    const char *memory, *what; /* "x"; "reduce", the op's name */
    const Value *value;        /* of the memory */
    int line;                  /* of the source */
    int bytes;                 /* of a thread's access */
    const char *why_width, *guard;
    double requests; /* of warps */
    double sectors;  /* of global memory */
    double l1_wavefronts;
    double packets, missed; /* of the second-level cache (request_packets); those of loads that no
                               other load of the block brings in the same round */
    double least_sectors;                /* the fewest that contain these bytes */
    double wavefronts, least_wavefronts; /* of shared memory: wavefronts */
    double moved;                        /* bytes that threads or TMA request */
    bool assumed;       /* indices depend on data and are assumed to be spread evenly */
    WarpRequest sample; /* with most wavefronts or sectors; no lanes: none */
    int sample_cost;
} AccessReport;

typedef struct BufferReport {
    const char *name;
    const Value *value;
    int offset, bytes, slots, swizzle;
    int line;
} BufferReport;

typedef struct TileReport {
    const Layout *layout;
    const Value *value; /* the first one with this layout */
    int n;              /* values with this layout */
} TileReport;

typedef enum Limit {
    LIMIT_WARPS,
    LIMIT_BLOCKS,
    LIMIT_REGISTERS,
    LIMIT_SHARED,
    LIMIT_GRID, /* the grid has fewer blocks than fit */
    N_LIMIT,
} Limit;
const char *limit_name(Limit limit);

typedef struct Occupancy {
    bool known;          /* the target is a GPU */
    int blocks[N_LIMIT]; /* of a multiprocessor that each limit allows; LIMIT_GRID: unused */
    int resident, warps; /* blocks and warps at once of a multiprocessor */
    double share;        /* of the warps that it may have */
    Limit limit;
    double waves; /* of resident blocks; 0: the grid is not known */
} Occupancy;

typedef struct Roofline {
    double matrix_work;                 /* matrix_flops as of 16 bits that take as long */
    double matrix_flops, flops;         /* on matrix units, and elsewhere */
    double read, written;               /* bytes if each tensor is accessed once: the minimum */
    double written_in_parts;            /* bytes of sectors that are written partly, and so read */
    double asked_read, asked_written;   /* bytes that accesses request from L2 */
    double memory_read, memory_written; /* bytes that memory is expected to move if L2 is cold */
    double memory_seconds, compute_seconds;
    double intensity; /* FLOP a byte of the minimum */
    bool memory_bound;
} Roofline;

/* The last dot of a launch. */
typedef struct ProductReport {
    const Op *op; /* NULL: the launch has none */
    int n;        /* dots of the launch */
    bool alike;   /* all of them are in one loop and have one shape */
    int ops;      /* element-wise ops on each element of its result */
    const char *unit;
    const MatrixInstr *instruction; /* NULL: fma */
    int64_t m, n_columns;           /* of its tile; 0: not a matrix */
    int slots;                      /* stages of its ring buffers; 0: it has none */
    int64_t slot_bytes;
    int64_t tiles;
    double waves;        /* of tiles */
    double tail;         /* the share of multiprocessors that is idle in the last wave */
    bool modelled;       /* the wave model gives what follows; otherwise it is a bound */
    double share;        /* of the roofline */
    double cycles;       /* of the launch, by the model */
    DotCost cost;        /* what these consist of */
    const char *limiter; /* NULL: nothing is known */
} ProductReport;

/* What the predicted time of a launch consists of: things that follow one another on the busiest
 * multiprocessor, of which it is the sum, and what each unit would take alone, which overlap. */
enum { MAX_TIME_PARTS = 8 };
typedef struct TimePart {
    const char *what;
    double seconds;
} TimePart;
typedef struct TimeCourse {
    TimePart parts[MAX_TIME_PARTS], alone[MAX_TIME_PARTS];
    int n_parts, n_alone;
    double steps;        /* of loops of products, of the busiest multiprocessor; 0: none, unknown */
    double step_seconds; /* of one of them, with all that it waits for */
} TimeCourse;

/* What a launch costs on a CPU; 0 for GPUs. */
typedef struct CpuReport {
    double loop_bytes;    /* bytes of tiles that are reduced or stored, each in a loop of its own */
    double chain_cycles;  /* cycles that a reduction element by element waits for the one before */
    double packed_bytes;  /* bytes of operands that are packed for dots */
    double startup_bytes; /* bytes at the starts of contiguous runs, which no prefetch covers */
    double l2_line_bytes; /* bytes of cache lines that accesses across rows load from L2, */
    double far_line_bytes; /* and from L3 or memory */
} CpuReport;

/* What of a launch may take less time otherwise (explain_findings.c). */
typedef enum Finding {
    FINDING_SPILLS,
    FINDING_SECTORS,
    FINDING_CONFLICTS,
    FINDING_NARROW,
    FINDING_IDLE,     /* fewer blocks than multiprocessors */
    FINDING_TAIL,     /* an incomplete last wave */
    FINDING_REREAD,   /* inputs are requested many times */
    FINDING_ORDINARY, /* products that no matrix unit computes */
    FINDING_FAR,      /* from the roofline */
    FINDING_MATRIX,
    FINDING_MEMORY,
    FINDING_ARITHMETIC,
    N_FINDING,
} Finding;

typedef struct Note {
    Finding finding;
    const char *text;
} Note;

typedef struct LaunchReport {
    const PlanLaunch *plan;
    const Op *op;
    const char *tiles;              /* "M by 128, N by 256" */
    const char *why;                /* why it is a separate launch */
    const AssemblerInfo *assembled; /* NULL: not known */
    int warps, shared_bytes;        /* of a block */
    int64_t code_bytes;             /* of its machine code, estimated */
    double issued;                  /* instructions that its warps execute, estimated */
    CodeCounts loop;                /* of a step of its hot loop, or of a block that has none */
    int64_t blocks;                 /* -1: not known */
    int line;
    bool uncertain;     /* branches or loops depend on data */
    bool coarse;        /* of loops or grids one round stands for all: more would take too long */
    bool untraced;      /* so would what caches keep of it: each array counts once */
    bool data_loops;    /* some are loops, of which all numbers count one iteration */
    int data_loop_line; /* of the first one; 0: not known */
    bool equal_parts;   /* it walks parts of an axis, which are counted as equally long */
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
    } layouts_used;
    Occupancy occupancy;
    Roofline roofline;
    ProductReport product;
    CpuReport cpu;
    double predicted;      /* seconds, by the model; 0: not known */
    TimeCourse course;     /* of them */
    const char *limiter;   /* what takes most of the time; NULL: not known */
    int64_t looks, visits; /* at ops, by the sampled trace and by that of memory: what it took */
    struct {
        Note *items;
        size_t n, cap;
    } notes;
} LaunchReport;

/* ---- hints ---- */

typedef enum HintKind {
    HINT_SCHEDULE, /* an entry of the schedule */
    HINT_FACT,     /* `assume sorted(i)` */
    HINT_SIZE,     /* arrays padded to another size */
    HINT_SOURCE,   /* operands of a product in 16 bits */
    N_HINT,
} HintKind;
const char *hint_kind_name(HintKind kind);

/* A text in the place of another one of the source. */
typedef struct Edit {
    Span span;
    const char *was, *text;
} Edit;

enum { MAX_EDITS = 2 };

/* A change that can be made by machine, and what the model expects of it: it was compiled. */
typedef struct Hint {
    HintKind kind;
    const char *line; /* what to write: "tile M 128", "assume sorted(e)", "--size N=1008" */
    const char *name; /* of the size or the parameter */
    int64_t size;     /* the other one */
    Edit edits[MAX_EDITS];
    int n_edits;
    double before, after; /* seconds of all launches */
} Hint;

typedef struct Hints {
    Hint *items;
    size_t n, cap;
} Hints;

typedef struct Report {
    const ReportInput *input;
    const Target *target;
    const Machine *card; /* NULL: a CPU */
    bool sized;          /* all sizes were given, so that there are totals */
    LaunchReport *launches;
    int n_launches;
    Hints proposed;             /* changes of sizes and of the source that a finding calls for */
    Hints hints;                /* changes by which the model expects less time; by whoever tries */
    const char *nominal; /* what prices took sizes for that are not given; NULL: all are */
    const char *fact;    /* what would change the plan, and to what effect; NULL: none */
    const struct Report *other; /* of another schedule, which the HTML page sets next to it */
} Report;

void report_make(const ReportInput *input, Report *report);
/* The same to rank schedules: few iterations stand for all. */
void report_make_brief(ReportInput *input, Report *report);
/* Seconds that the launches of the report are expected to take; 0: not known of one of them. */
double report_seconds(const Report *report);
/* The least seconds, by memory and arithmetic. */
double report_least(const Report *report);
/* Why a launch needs more threads, shared memory or registers than the target has; NULL: it does
 * not. */
const char *report_misfit(const Report *report);
/* Sum over the accesses of one kind; `field` is an offset into AccessReport. */
double launch_total(const LaunchReport *launch, Traffic kind, size_t field);
#define LAUNCH_TOTAL(launch, kind, field)                                                          \
    launch_total((launch), (kind), offsetof(AccessReport, field))

/* The share of a report's time that one launch may take, so that many launches take no longer than
 * few. */
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
