/* SPDX-License-Identifier: Apache-2.0 */
/* The launch plan: everything that a launch needs to know about a compiled kernel, without the
 * compiler. Code generation builds it, launching reads it. Its pointers are into the owner's
 * arena. */
#ifndef TESSERA_RUNTIME_DEVICE_PLAN_H
#define TESSERA_RUNTIME_DEVICE_PLAN_H

#include "ir/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Axes of a parameter, of an intermediate, spatial axes of a copy of windows, and factors of a term
 * of a size, at most. */
enum { PLAN_MAX_RANK = 8, PLAN_SCRATCH_RANK = 12, PLAN_MAX_SPATIAL = 3, PLAN_MAX_DEGREE = 12 };

/* A size expression over the plan's sizes: sum of coef * product of sizes[var]. */
typedef struct PlanTerm {
    int64_t coef;
    int n;
    int vars[PLAN_MAX_DEGREE]; /* indices into Plan.sizes */
} PlanTerm;
typedef struct PlanExpr {
    int n;
    PlanTerm *terms;
} PlanExpr;

/* A size of the kernel, or a stride of one of its tensors, and what this code assumes of it. */
typedef struct PlanSize {
    const char *name;
    int64_t multiple, least, most; /* 1, 0, INT64_MAX: nothing assumed */
    PlanExpr of;                   /* by > 0: it is of // by, rounded down */
    int64_t by;
    bool stride;   /* where two neighbours along an axis of one tensor are, in elements */
    bool is_given; /* compiled for this value, which counts where no tensor says another */
    int64_t given;
} PlanSize;

typedef enum PlanParamIo { PLAN_IN, PLAN_OUT, PLAN_INOUT } PlanParamIo;
typedef struct PlanParam {
    const char *name;
    DType dtype;
    PlanParamIo io;
    int rank;          /* -1: a scalar, passed by value */
    PlanExpr *dims;    /* rank of them */
    PlanExpr *strides; /* rank of them, in elements, each a number or one size; NULL: contiguous */
    int order[PLAN_MAX_RANK];  /* axis i is the caller's axis order[i] */
    int align;                 /* the pointer must be a multiple of this many bytes */
    int n_merged;              /* axes by which the code knows it; 0: by these */
    int merged[PLAN_MAX_RANK]; /* how many of these each is, one behind the other */
} PlanParam;

/* An intermediate tensor: memory from the launch of the plan that fills it to the last that reads
 * it. Counted as a parameter after the plan's own, in ARG_POINTER and in maps. */
typedef struct PlanScratch {
    DType dtype;
    int rank;
    PlanExpr *dims;
    PlanExpr *strides; /* in elements, axis 0 the longest; NULL: contiguous */
    int first, last;   /* launches that use it; first > last: none */
} PlanScratch;

/* Of windows along a spatial axis: where the first begins, how far it is to the next, how many
 * there are. */
typedef struct PlanWindows {
    PlanExpr first;
    int64_t step;
    PlanExpr places;
} PlanWindows;

/* A bulk copy descriptor (CUDA tensor map) over a tensor parameter, made at launch. Axis 0 is the
 * slowest, as in the parameter; the box has one extent an axis. One of windows (n_windows > 0:
 * im2col mode) walks pixels: box[0] of them, each of box[rank - 1] channels. */
typedef struct PlanTensorMap {
    int param;
    int rank;
    int64_t box[PLAN_MAX_RANK];
    int swizzle;   /* bytes: 0, 32, 64, 128 */
    bool tf32;     /* f32 gets the bits of a tf32 on the way */
    bool wide_l2;  /* promote to 256 bytes in L2 */
    int few;       /* 1 + the axis along which the box has no more than the tensor; 0: none */
    int n_windows; /* spatial axes; 0: a box of the tensor itself */
    int n_merged;  /* axes of the map, where the code knows an intermediate by other axes; else 0 */
    int merged[PLAN_MAX_RANK]; /* how many of the intermediate's axes each is */
    int n_split;               /* axes of the map, where the code knows axes of the parameter as
                                * groups and the places in a group; else 0 */
    int64_t split[PLAN_MAX_RANK]; /* 0: the axis, or the groups of one, begins; else places in a
                                   * group of the axis before it */
    PlanWindows windows[PLAN_MAX_SPATIAL];
} PlanTensorMap;

typedef enum PlanArgKind {
    ARG_POINTER, /* of tensor parameter `index`; from n_params on, of an intermediate */
    ARG_SCALAR,  /* scalar parameter `index`, in its own type */
    ARG_SIZE,    /* sizes[index], as i64 */
    ARG_MAP,     /* maps[index], 128 bytes by value, aligned to 64 */
    ARG_LOG,     /* the address of the log, as an ARG_POINTER */
} PlanArgKind;
typedef struct PlanArg {
    PlanArgKind kind;
    int index;
} PlanArg;

/* One axis of a launch: ceil(extent / step) tiles (step 0: extent of them), where extent is what
 * lies between `from` and `upto` (0: its end). */
typedef struct PlanAxis {
    PlanExpr extent;
    int64_t step;
    int64_t from, upto;
} PlanAxis;

typedef struct PlanLaunch {
    const char *symbol;
    int n_axes;
    PlanAxis *axes;   /* number of blocks: the product; nothing is launched when it is 0 */
    int threads;      /* a block; CPU: 1 */
    int shared_bytes; /* dynamic shared memory of a block */
    bool persistent;  /* at most one block a multiprocessor × blocks_per_unit */
    int blocks_per_unit;
    int64_t most_tiles; /* persistent: that a block may walk; 0: any number */
    int cluster;        /* blocks of a cluster; 1: none */
    int workers;        /* CPU: threads that share the blocks at most; 0: all */
    bool dependent;  /* it may begin before what was launched before it is done: it waits itself */
    bool concurrent; /* it does not wait before it touches memory: it runs at the same time as that
                        before it */
    int n_args;
    PlanArg *args; /* the kernel's parameters in order. CPU symbols instead are
                      void f(void *const *args, int64_t first, int64_t last): args[i] points to
                      the value (for ARG_POINTER: is the data pointer itself) */
} PlanLaunch;

/* What prints and assertions say goes into a log of i64: how many records there were, how many of
 * them are assertions that did not hold, then the first LOG_RECORDS of them, log_words each: which
 * message it is, and its values (floats as f64). */
enum { LOG_RECORDS = 1 << 15, LOG_HEAD = 2 };

typedef struct PlanMessage {
    bool fails;       /* an assertion that did not hold */
    const char *text; /* {1} stands for value 1; ir/message_format.h */
    const char *file; /* NULL: not known */
    int line;
    int n, places; /* values; the last of them say where the element is, and order records */
    const DType *dtypes;
} PlanMessage;

typedef struct Plan {
    const char *kernel;
    const char *target;
    int n_sizes;
    PlanSize *sizes;
    int n_params;
    PlanParam *params; /* inputs and outputs in the order of the signature */
    int n_maps;
    PlanTensorMap *maps;
    int n_launches;
    PlanLaunch *launches; /* in order */
    int n_scratch;
    PlanScratch *scratch;
    int log_words;  /* 0: it says nothing */
    int n_messages; /* in the order of the source; some may have no text */
    PlanMessage *messages;
} Plan;

#endif
