/* SPDX-License-Identifier: Apache-2.0 */
/* Records in SQLite's table: a row is intact or counts as absent. Return codes are SQLite's.
 * Private to the component. */
#ifndef TESSERA_TUNE_STORE_TUNE_STORE_TABLE_H
#define TESSERA_TUNE_STORE_TUNE_STORE_TABLE_H

#include "tune/store/tune_store.h"

#include <sqlite3.h>

int store_run(sqlite3 *db, const char *sql);

typedef TuneRecord JoinRows(const TuneRecord *a, const TuneRecord *b);

/* What becomes of a row that there is already. */
typedef struct StorePutting {
    JoinRows *join;     /* NULL: the new one replaces */
    TuneMerged *merged; /* is counted; may be NULL */
} StorePutting;
/* All of them, or none. */
int store_put_rows(sqlite3 *db, Arena *arena, const TuneRecord *records, size_t n,
                   const StorePutting *how);
/* Those that fit the filter; `damaged` counts those that are not what was written. */
int store_read_rows(sqlite3 *db, const TuneFilter *filter, Arena *arena, TuneRecords *records,
                    size_t *damaged);

#endif
