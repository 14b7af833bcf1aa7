/* SPDX-License-Identifier: Apache-2.0 */
/* A tuning case: all records with the same kernel, types, device, sizes and version. It gives the
 * best schedule, the derived one, and whether the measured difference is significant. */
#ifndef TESSERA_TUNE_STORE_TUNING_CASE_H
#define TESSERA_TUNE_STORE_TUNING_CASE_H

#include "tune/store/tune_store.h"

typedef struct TuningCase {
    const TuneRecord *records; /* as tune_store_query sorts them: the fastest first */
    size_t n;
    const TuneRecord *best;    /* the fastest of those that win, else of those measured; or NULL */
    const TuneRecord *derived; /* measured; NULL: it was not */
    size_t counts[TUNE_STATUSES];
} TuningCase;

typedef struct TuningCases {
    TuningCase *items;
    size_t n, cap;
} TuningCases;

/* Of records as tune_store_query sorts them. */
void tune_groups(Arena *arena, const TuneRecords *records, TuningCases *groups);
/* Did a sweep find the best one surely faster than what is derived? */
bool tune_group_wins(const TuningCase *group);
/* Did no sweep of this question get to its last measurement? Then nothing is decided. */
bool tune_group_open(const TuningCase *group);
/* How many times as fast as what is derived, by a sweep's own turns; 1 of the derived one; NaN: no
 * sweep has measured the two beside each other. */
double tune_ratio(const TuneRecord *record);
/* "linear, T=bf16 on NVIDIA H200 (sm_90a), M=4096" */
void tune_group_name(const TuningCase *group, Text *out);
/* "182.3 us"; "-" for what was not measured. */
void tune_time(double seconds, Text *out);
/* The lines of a candidate in one: "tile M 128; pipeline 4"; "derived" for none. */
const char *tune_lines(Arena *arena, const TuneRecord *record);

/* The choice for all sizes of a bucket that were measured. */
typedef struct TuneWinner {
    const TuningCase *groups; /* of the bucket, one a size, one after the other */
    size_t n;
    const char *candidate; /* NULL: what is derived is as good */
    double ratio;          /* how much faster it is than what is derived: the geometric mean */
    bool open;             /* no sweep of these sizes got to its last measurement */
} TuneWinner;
/* Of groups[0..] those of the first one's bucket. A candidate is chosen that was measured at all of
 * the sizes and lost to what is derived at none, and is the fastest of them; one that no sweep has
 * found surely faster than the derived schedule is not. */
TuneWinner tune_winner(const TuningCase *groups, size_t n);

#endif
