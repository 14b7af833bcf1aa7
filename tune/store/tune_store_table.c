/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes records as rows of the SQLite table. A row whose digest does not match is
 * treated as absent. */
#include "tune/store/tune_store_table.h"

#include "tune/store/tune_store_row.h"

#include <math.h>
#include <string.h>

int store_run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* ---- one row ---- */

static const char *column_text(Arena *arena, sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    return text ? arena_strndup(arena, text, (size_t)sqlite3_column_bytes(row, column)) : "";
}

static double column_number(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? (double)NAN
                                                           : sqlite3_column_double(row, column);
}

static void read_ratios(sqlite3_stmt *row, TuneRecord *record)
{
    row_without_ratios(record);
    if (sqlite3_column_count(row) < ROW_COLUMNS) {
        return;
    }
    for (int i = 0; i < ROW_RATIOS; i++) {
        *row_ratio(record, i) = column_number(row, COLUMN_RATIOS + i);
    }
    int64_t verdict = sqlite3_column_int64(row, COLUMN_VERDICT);
    record->verdict = verdict > 0 && verdict <= TUNE_FASTER ? (TuneVerdict)verdict : TUNE_OPEN;
}

/* False: the row is not as it was written. */
static bool read_row(Arena *arena, sqlite3_stmt *row, TuneRecord *record)
{
    unsigned char sum[ROW_SUM];
    for (int i = 0; i < ROW_TEXTS; i++) {
        *row_text(record, i) = column_text(arena, row, COLUMN_TEXTS + i);
    }
    if (!tune_status_find(column_text(arena, row, COLUMN_STATUS), &record->status)) {
        return false;
    }
    read_ratios(row, record);
    for (int i = 0; i < ROW_NUMBERS; i++) {
        *row_number(record, i) = column_number(row, COLUMN_NUMBERS + i);
    }
    record->derived = sqlite3_column_int(row, COLUMN_DERIVED) != 0;
    record->count = sqlite3_column_int64(row, COLUMN_COUNT);
    record->when = sqlite3_column_int64(row, COLUMN_WHEN);
    record->message = column_text(arena, row, COLUMN_MESSAGE);
    row_sum(record, sum);
    return sqlite3_column_bytes(row, COLUMN_SUM) == ROW_SUM &&
           memcmp(sqlite3_column_blob(row, COLUMN_SUM), sum, ROW_SUM) == 0 &&
           sqlite3_column_int64(row, COLUMN_ID) == row_id(record);
}

static int bind_row(sqlite3_stmt *to, const TuneRecord *record)
{
    unsigned char sum[ROW_SUM];
    TuneRecord copy = *record;
    row_sum(record, sum);
    sqlite3_bind_int64(to, COLUMN_ID + 1, row_id(record));
    for (int i = 0; i < ROW_TEXTS; i++) {
        sqlite3_bind_text(to, COLUMN_TEXTS + i + 1, *row_text(&copy, i), -1, SQLITE_STATIC);
    }
    sqlite3_bind_text(to, COLUMN_STATUS + 1, tune_status_name(record->status), -1, SQLITE_STATIC);
    sqlite3_bind_int(to, COLUMN_DERIVED + 1, record->derived);
    sqlite3_bind_int64(to, COLUMN_COUNT + 1, record->count);
    for (int i = 0; i < ROW_NUMBERS; i++) {
        sqlite3_bind_double(to, COLUMN_NUMBERS + i + 1, *row_number(&copy, i));
    }
    sqlite3_bind_int64(to, COLUMN_WHEN + 1, record->when);
    sqlite3_bind_text(to, COLUMN_MESSAGE + 1, record->message, -1, SQLITE_STATIC);
    sqlite3_bind_blob(to, COLUMN_SUM + 1, sum, ROW_SUM, SQLITE_TRANSIENT);
    for (int i = 0; i < ROW_RATIOS; i++) {
        sqlite3_bind_double(to, COLUMN_RATIOS + i + 1, *row_ratio(&copy, i));
    }
    sqlite3_bind_int(to, COLUMN_VERDICT + 1, record->verdict);
    int code = sqlite3_step(to);
    sqlite3_reset(to);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* ---- many ---- */

typedef struct Putting {
    sqlite3_stmt *find, *put;
    const StorePutting *how;
} Putting;

static bool same_row(const TuneRecord *a, const TuneRecord *b)
{
    unsigned char left[ROW_SUM], right[ROW_SUM];
    row_sum(a, left);
    row_sum(b, right);
    return memcmp(left, right, ROW_SUM) == 0;
}

static int put_row(Arena *arena, const Putting *putting, const TuneRecord *record)
{
    TuneRecord old = {0}, row = *record;
    sqlite3_bind_int64(putting->find, 1, row_id(record));
    int code = sqlite3_step(putting->find);
    bool found = code == SQLITE_ROW && read_row(arena, putting->find, &old);
    sqlite3_reset(putting->find);
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        return code;
    }
    if (found && putting->how->join) {
        row = putting->how->join(&old, record);
    }
    bool changes = !found || !same_row(&old, &row);
    TuneMerged *merged = putting->how->merged;
    if (merged) {
        merged->added += !found;
        merged->replaced += found && changes;
        merged->kept += !changes;
    }
    return changes ? bind_row(putting->put, &row) : SQLITE_OK;
}

int store_put_rows(sqlite3 *db, Arena *arena, const TuneRecord *records, size_t n,
                   const StorePutting *how)
{
    Putting putting = {.how = how};
    int code = store_run(db, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK) {
        return code;
    }
    code = sqlite3_prepare_v2(db, "SELECT * FROM records WHERE id=?", -1, &putting.find, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_prepare_v2(db,
                                  "INSERT OR REPLACE INTO records VALUES"
                                  "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                                  -1, &putting.put, NULL);
    }
    for (size_t i = 0; i < n && code == SQLITE_OK; i++) {
        TuneRecord clean = row_clean(arena, &records[i]);
        code = put_row(arena, &putting, &clean);
    }
    sqlite3_finalize(putting.find);
    sqlite3_finalize(putting.put);
    code = code == SQLITE_OK ? store_run(db, "COMMIT") : code;
    if (code != SQLITE_OK) {
        store_run(db, "ROLLBACK");
    }
    return code;
}

int store_read_rows(sqlite3 *db, const TuneFilter *filter, Arena *arena, TuneRecords *records,
                    size_t *damaged)
{
    sqlite3_stmt *row;
    int code = sqlite3_prepare_v2(db, "SELECT * FROM records", -1, &row, NULL);
    if (code != SQLITE_OK) {
        return code;
    }
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        TuneRecord record = {0};
        int columns = sqlite3_column_count(row);
        if (columns != ROW_COLUMNS && columns != ROW_COLUMNS_1) {
            code = SQLITE_CORRUPT;
            break;
        }
        bool complete = read_row(arena, row, &record);
        *damaged += !complete;
        if (complete && row_fits(&record, filter)) {
            ARENA_PUSH(arena, records, record);
        }
    }
    sqlite3_finalize(row);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}
