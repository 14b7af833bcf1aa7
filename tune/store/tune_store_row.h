/* SPDX-License-Identifier: Apache-2.0 */
/* Records as rows of a table: the order of the columns, the digest, and the sort order of rows.
 * Private to the component. */
#ifndef TESSERA_TUNE_STORE_TUNE_STORE_ROW_H
#define TESSERA_TUNE_STORE_TUNE_STORE_ROW_H

#include "tune/store/tune_store.h"

/* The table's columns. `id` is made from the key, so that there is one tree of pages and no index
 * that might say otherwise. */
#define TUNE_TABLE                                                                                 \
    "CREATE TABLE IF NOT EXISTS records(id INTEGER PRIMARY KEY, kernel TEXT, digest TEXT, "        \
    "types TEXT, bucket TEXT, sizes TEXT, device TEXT, arch TEXT, candidate TEXT, version TEXT, "  \
    "status TEXT, derived INTEGER, count INTEGER, median REAL, low REAL, high REAL, "              \
    "predicted REAL, roof REAL, measured INTEGER, message TEXT, sum BLOB" TUNE_ADDED(", ") ")"
/* Those of schema 2, each after `before`. */
#define TUNE_ADDED(before)                                                                         \
    before "ratio REAL" before "ratio_low REAL" before "ratio_high REAL" before "verdict INTEGER"

enum {
    ROW_TEXTS = 9,   /* kernel to version: the key */
    ROW_NUMBERS = 5, /* median to roof */
    ROW_RATIOS = 3,
    ROW_COLUMNS = 25,
    ROW_COLUMNS_1 = 21, /* of schema 1, which has no ratios */
    ROW_SUM = 16,       /* bytes of a digest */
    MAX_ROW = 15000     /* bytes of texts: a row is on one page */
};
enum {
    COLUMN_ID,
    COLUMN_TEXTS, /* the first of them */
    COLUMN_STATUS = COLUMN_TEXTS + ROW_TEXTS,
    COLUMN_DERIVED,
    COLUMN_COUNT,
    COLUMN_NUMBERS, /* median, low, high, predicted, roof */
    COLUMN_WHEN = COLUMN_NUMBERS + 5,
    COLUMN_MESSAGE,
    COLUMN_SUM,
    COLUMN_RATIOS, /* ratio, ratio_low, ratio_high */
    COLUMN_VERDICT = COLUMN_RATIOS + ROW_RATIOS
};

/* Field i of the key, of the numbers, and of the ratios. */
const char **row_text(TuneRecord *record, int i);
double *row_number(TuneRecord *record, int i);
double *row_ratio(TuneRecord *record, int i);
/* What a row of schema 1 says of them: nothing. */
void row_without_ratios(TuneRecord *record);
int64_t row_id(const TuneRecord *record);
void row_sum(const TuneRecord *record, unsigned char sum[ROW_SUM]);
bool row_fits(const TuneRecord *record, const TuneFilter *filter);
/* Sorts as tune_store_query says, and leaves one of those with the same key. */
void rows_sort(TuneRecords *records);
/* Texts that are NULL become "", a message that is too long is cut. */
TuneRecord row_clean(Arena *arena, const TuneRecord *record);

#endif
