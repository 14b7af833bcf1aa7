/* SPDX-License-Identifier: Apache-2.0 */
/* The interface for tuners: which schedules may be tried, and what the cost model predicts for
 * one. The program `tessera` includes this besides tessera.h and api_debug.h. */
#ifndef TESSERA_RUNTIME_API_API_SEARCH_H
#define TESSERA_RUNTIME_API_API_SEARCH_H

#include <tessera/tessera.h>

/* A line of the schedule with the values to try, as a source has them. */
typedef struct TesseraAxis {
    const char *key, *sub; /* "tile" or "launch 1: tile", "M"; sub "": none */
    const char *const *values;
    size_t n_values;
    bool numbers;        /* else words */
    const char *derived; /* what it is where the user gives none; NULL: there is no such line */
} TesseraAxis;

/* What there is to search. */
typedef struct TesseraSpace {
    const TesseraAxis *axes; /* in the order of the table of lines */
    size_t n_axes;
    bool declared; /* by `tune` blocks; else proposed, by what the compiler decided itself */
    /* A declared axis that the command line gives already, and which is none therefore. */
    const char *given;
    /* Sizes along which results are made of many elements: those of sums, loops, sorts. */
    const char *const *folded;
    size_t n_folded;
    const char *const *ends; /* others, that say where a loop along such a one ends */
    size_t n_ends;
    const char *const
        *fixed; /* that are numbers in the code: no other is as good (`assume D in`) */
    size_t n_fixed;
    const char *ptxas; /* of NVIDIA's targets the assembler, where there is one; else NULL */
} TesseraSpace;
/* Of a kernel that was compiled for the sizes of its options; threads: of a CPU, 0: as many as this
 * process may use. Lives as long as the kernel. */
TESSERA_API TesseraStatus tessera_kernel_space(TesseraKernel *kernel, int threads,
                                               TesseraSpace *space);

/* What is known of a schedule without running it. */
typedef struct TesseraPrediction {
    bool fits;       /* a multiprocessor has space for a block */
    const char *why; /* it does not */
    double seconds;  /* by the model; 0: not known */
    double roof;     /* the least, by memory and arithmetic */
    uint64_t code;   /* of the scheduled code: the same for what comes to the same */
    /* Of the lines that change bits: kernels with the same and no floating-point atomics have the
     * same bits as results. */
    uint64_t bits;
    /* Steps of ranges on which roundings may depend, as "j=128,k=64"; "": none. The interpreter
     * takes the same with `tile j 128` as lines. */
    const char *steps;
    const char
        *lines; /* all that were decided, a key a line, as tessera_kernel_schedule has them */
} TesseraPrediction;
/* threads: as of tessera_kernel_space. Lives as long as the kernel. */
TESSERA_API TesseraStatus tessera_kernel_predict(TesseraKernel *kernel, int threads,
                                                 TesseraPrediction *prediction);
/* How many elements all operations of the program make under these sizes, roughly: what
 * interpreting it costs. 0: not known. */
TESSERA_API TesseraStatus tessera_kernel_work(TesseraKernel *kernel, const TesseraSize *sizes,
                                              size_t n_sizes, double *work);
/* A card of a target, from ir/target/machines.def, which explains its numbers; `--target
 * TARGET@NAME` compiles for it. */
typedef struct TesseraCard {
    const char *name, *target, *title;
    const char *source; /* of the numbers, by the letters of machines.def */
    bool is_default;    /* of its target */
    int units, clock;   /* multiprocessors; MHz */
    int memory;         /* GB/s */
    int l2_mib;
    double flops16, flops32; /* FLOP/s, with and without the matrix units; 0: a CPU */
} TesseraCard;
/* Fills `card`; false past the last one. */
TESSERA_API bool tessera_card(size_t index, TesseraCard *card);
/* Machine code, as tessera_prepare would have it made: into the cache. */
TESSERA_API TesseraStatus tessera_kernel_make(TesseraKernel *kernel);
/* True if the code of a diagnostic ("E0506") means that a schedule exceeds the resources of the
 * target. */
TESSERA_API bool tessera_code_is_room(const char *code);

#endif
