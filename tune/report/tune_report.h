/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a sweep for one tuning case (tuning_case.h): which schedule entries mattered, how
 * well the cost model ranked the candidates, and why candidates failed. There are three writers:
 * text, JSON, and one HTML page. */
#ifndef TESSERA_TUNE_REPORT_TUNE_REPORT_H
#define TESSERA_TUNE_REPORT_TUNE_REPORT_H

#include "tune/store/tuning_case.h"

/* What was tried of one line. */
typedef struct ReportValue {
    const char *value;   /* "128"; "-": the candidate does not have the line */
    size_t tried, n;     /* n: of them measured */
    double best, middle; /* of these: the least time, and the median; NaN: none */
} ReportValue;

typedef struct ReportLine {
    const char *line; /* "tile M" */
    struct {
        ReportValue *items;
        size_t n, cap;
    } values;
    double share;  /* of the variance of log(time), that its value explains by itself */
    double spread; /* the middle of its slowest value over that of its fastest */
} ReportLine;

typedef struct ReportReason {
    TuneStatus status;
    const char *message;
    size_t n;
} ReportReason;

/* How the times that the model predicts rank beside those measured. */
typedef struct ReportRanks {
    size_t n;                 /* candidates that have both */
    double spearman, kendall; /* -1 to 1; NaN: fewer than 3 */
    size_t place;             /* of the fastest, in the model's order: 1 is the first */
    double first;             /* the time of the model's first over that of the fastest */
} ReportRanks;

typedef struct Report {
    const TuningCase *group;
    struct {
        ReportLine *items; /* what mattered most comes first */
        size_t n, cap;
    } lines;
    struct {
        ReportReason *items; /* the most frequent first */
        size_t n, cap;
    } reasons;
    ReportRanks ranks;
} Report;

void tune_report_make(Arena *arena, const TuningCase *group, Report *report);
void tune_report_text(Arena *arena, const Report *report, Text *out);
void tune_report_json(const Report *report, Text *out);
/* The page of all of them. */
void tune_report_html(Arena *arena, const Report *reports, size_t n, Text *out);

/* What a page is filled into (tune_report_page.html). */
extern const char tune_report_page[];

#endif
