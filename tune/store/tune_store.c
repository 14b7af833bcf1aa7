/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning store in SQLite. It uses a rollback journal instead of a write-ahead log: a journal
 * needs no memory shared between processes, so it works wherever file locks do, and a store that
 * is not in use is one file. */
#include "tune/store/tune_store.h"

#include "support/clock.h"
#include "tune/store/tune_store_file.h"
#include "tune/store/tune_store_row.h"
#include "tune/store/tune_store_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SCHEMA = 2, WAIT_SECONDS = 60, MAX_TRIES = 4, MIN_NAP_US = 1000, MAX_NAP_US = 12000 };

struct TuneStore {
    Arena *arena;
    const char *path;
    TuneAccess access;
    sqlite3 *db;
    StoreFile file;       /* that is open */
    TuneRecords salvaged; /* intact rows of a damaged file that is only read */
    bool is_salvaged;
    double waiting; /* since; seconds */
    uint32_t dice;
    const char *warning;
};

static bool set_why(const TuneStore *store, const char **why, const char *what)
{
    *why = arena_printf(store->arena, "tuning store %s: %s", store->path, what);
    return false;
}

static bool is_damage(int code)
{
    int primary = code & 0xff;
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_FORMAT;
}

/* Translates an error of SQLite for the user. */
static bool set_failure(const TuneStore *store, const char **why, int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY: return set_why(store, why, "others write to it without an end");
    case SQLITE_FULL: return set_why(store, why, "the disk is full: nothing was written");
    case SQLITE_READONLY:
    case SQLITE_PERM: return set_why(store, why, "it cannot be written to");
    case SQLITE_CANTOPEN:
        return set_why(store, why,
                       store->access == TUNE_WRITE ? "it cannot be opened to be written to"
                                                   : "it cannot be opened");
    case SQLITE_IOERR:
        return set_why(store, why, "reading or writing failed; is the disk full? nothing is lost");
    default: return set_why(store, why, sqlite3_errstr(code));
    }
}

static void warn(TuneStore *store, const char *text)
{
    if (!store->warning) {
        store->warning = arena_printf(store->arena, "tuning store %s: %s", store->path, text);
    }
}

/* ---- opening ---- */

static int get_number(sqlite3 *db, const char *sql, int64_t *number)
{
    sqlite3_stmt *query;
    int code = sqlite3_prepare_v2(db, sql, -1, &query, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(query);
        *number = code == SQLITE_ROW ? sqlite3_column_int64(query, 0) : 0;
        code = code == SQLITE_ROW ? SQLITE_OK : code;
        sqlite3_finalize(query);
    }
    return code;
}

static void close_database(TuneStore *store)
{
    sqlite3_close(store->db);
    store->db = NULL;
}

/* Waits while other processes write. SQLite's own busy handler sleeps longer the longer it has
 * waited, which favors the process that came last; this one gives all the same chance. */
static int wait_for_others(void *user, int times)
{
    TuneStore *store = user;
    double now = clock_seconds();
    if (times == 0) {
        store->waiting = now;
    }
    if (now - store->waiting > WAIT_SECONDS) {
        return 0;
    }
    store->dice = store->dice * 1664525u + 1013904223u + (uint32_t)getpid();
    uint32_t nap = MIN_NAP_US + (store->dice >> 8) % (MAX_NAP_US - MIN_NAP_US);
    nanosleep(&(struct timespec){.tv_nsec = (long)nap * 1000}, NULL);
    return 1;
}

/* A foreign file may contain triggers, views and functions; none of them is executed. */
static int open_database(TuneStore *store)
{
    bool writes = store->access == TUNE_WRITE;
    int code = sqlite3_open_v2(
        store->path, &store->db,
        (writes ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_PRIVATECACHE, NULL);
    if (code != SQLITE_OK) {
        return code;
    }
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_handler(store->db, wait_for_others, store);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    store->file = store_file_look(store->path);
    return store_run(store->db, "PRAGMA cell_size_check=ON");
}

static int make_table(TuneStore *store)
{
    char sql[128];
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", STORE_MARK,
             SCHEMA);
    int code = store_run(store->db, "BEGIN IMMEDIATE");
    code = code == SQLITE_OK ? store_run(store->db, TUNE_TABLE) : code;
    code = code == SQLITE_OK ? store_run(store->db, sql) : code;
    return code == SQLITE_OK ? store_run(store->db, "COMMIT") : code;
}

/* New columns are added after the others, so that existing rows stay valid. */
static int add_columns(TuneStore *store)
{
    int64_t schema = 0;
    int code = store_run(store->db, "BEGIN IMMEDIATE");
    if (code != SQLITE_OK) {
        return code;
    }
    code = get_number(store->db, "PRAGMA user_version", &schema);
    if (code == SQLITE_OK && schema == 1) { /* another process may have added it meanwhile */
        code = store_run(store->db,
                         TUNE_ADDED("; ALTER TABLE records ADD COLUMN ") "; PRAGMA user_version=2");
    }
    code = code == SQLITE_OK ? store_run(store->db, "COMMIT") : code;
    if (code != SQLITE_OK) {
        store_run(store->db, "ROLLBACK");
    }
    return code;
}

typedef enum Opened { OPENED, OPENED_NOT, OPENED_DAMAGED } Opened;

/* The first page has the application id and the version; a file without them belongs to another
 * program. */
static Opened check_schema(TuneStore *store, const char **why)
{
    int64_t mark = 0, schema = 0, tables = 0;
    int code = get_number(store->db, "PRAGMA application_id", &mark);
    code = code == SQLITE_OK ? get_number(store->db, "PRAGMA user_version", &schema) : code;
    code = code == SQLITE_OK ? get_number(store->db, "SELECT count(*) FROM sqlite_schema", &tables)
                             : code;
    if (code == SQLITE_OK && mark == 0 && tables == 0 && store->access == TUNE_WRITE) {
        code = make_table(store);
        mark = STORE_MARK;
        schema = SCHEMA;
    }
    if (code != SQLITE_OK) {
        return is_damage(code) ? OPENED_DAMAGED : (set_failure(store, why, code), OPENED_NOT);
    }
    if (mark != STORE_MARK && tables == 0) {
        return OPENED; /* empty, and only read */
    }
    if (mark != STORE_MARK) {
        return OPENED_DAMAGED; /* or of another program, which reading the rows shows */
    }
    if (schema == 1) {
        code = store->access == TUNE_WRITE ? add_columns(store) : SQLITE_OK;
        return code == SQLITE_OK ? OPENED
               : is_damage(code) ? OPENED_DAMAGED
                                 : (set_failure(store, why, code), OPENED_NOT);
    }
    if (schema != SCHEMA) {
        set_why(store, why,
                arena_printf(store->arena,
                             "it is of schema %lld, and this program knows %d: nothing was changed",
                             (long long)schema, SCHEMA));
        return OPENED_NOT;
    }
    return OPENED;
}

/* Writing to a file whose pages are inconsistent would lose rows. */
static Opened check_pages(TuneStore *store, const char **why)
{
    sqlite3_stmt *check;
    int code = sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &check, NULL);
    bool complete = false;
    if (code == SQLITE_OK) {
        code = sqlite3_step(check);
        complete =
            code == SQLITE_ROW && text_equal((const char *)sqlite3_column_text(check, 0), "ok");
        sqlite3_finalize(check);
    }
    if (code != SQLITE_ROW && !is_damage(code)) {
        set_failure(store, why, code);
        return OPENED_NOT;
    }
    return complete ? OPENED : OPENED_DAMAGED;
}

static Opened try_open(TuneStore *store, const char **why)
{
    int code = open_database(store);
    if (code != SQLITE_OK) {
        return is_damage(code) ? OPENED_DAMAGED : (set_failure(store, why, code), OPENED_NOT);
    }
    if (store->access == TUNE_WRITE) {
        /* A page of 16 KiB holds any row. Deleted rows are overwritten, so that a salvage does not
         * restore them. */
        code = store_run(store->db, "PRAGMA page_size=16384; PRAGMA journal_mode=DELETE; "
                                    "PRAGMA synchronous=NORMAL; PRAGMA secure_delete=ON");
        if (code != SQLITE_OK && !is_damage(code)) {
            set_failure(store, why, code);
            return OPENED_NOT;
        }
    }
    Opened opened = code == SQLITE_OK ? check_schema(store, why) : OPENED_DAMAGED;
    return opened == OPENED && store->access == TUNE_WRITE ? check_pages(store, why) : opened;
}

/* ---- mending ---- */

/* Writes the intact rows to a new file under another name. */
static bool write_anew(TuneStore *store, const TuneRecords *records, const char *path)
{
    const char *why;
    TuneStore replacement = {.arena = store->arena, .path = path, .access = TUNE_WRITE};
    static const StorePutting replacing = {0};
    unlink(path);
    bool good = store_file_make(path) && try_open(&replacement, &why) == OPENED &&
                store_put_rows(replacement.db, store->arena, records->items, records->n,
                               &replacing) == SQLITE_OK;
    close_database(&replacement);
    if (!good) {
        unlink(path);
    }
    return good;
}

static bool mend(TuneStore *store, const char **why)
{
    TuneRecords records = {0};
    bool ours = false;
    const char *path = store->path;
    close_database(store);
    if (!store_file_salvage(store->arena, path, &records, &ours)) {
        return set_why(store, why, "it cannot be read");
    }
    if (!ours) {
        return set_why(store, why, "it is no tuning store; nothing was changed");
    }
    if (store->access == TUNE_READ) {
        store->salvaged = records;
        store->is_salvaged = true;
        warn(store, arena_printf(store->arena, "the file is damaged; %zu rows of it are whole",
                                 records.n));
        return true;
    }
    const char *replacement = arena_printf(store->arena, "%s.new-%ld", path, (long)getpid());
    const char *aside = write_anew(store, &records, replacement)
                            ? store_file_replace(store->arena, path, replacement)
                            : NULL;
    if (!aside) {
        unlink(replacement);
        return set_why(store, why, "it is damaged, and no new one can be written beside it");
    }
    warn(store, arena_printf(store->arena,
                             "the file was damaged and is kept as %s; %zu rows of it are whole and "
                             "go on",
                             aside, records.n));
    return true;
}

/* Another process may have repaired the file while this one waited. */
static bool mend_once(TuneStore *store, const char **why)
{
    if (store->access == TUNE_READ) {
        return mend(store, why);
    }
    close_database(store);
    int lock = store_file_lock(store->arena, store->path, STORE_ALONE);
    Opened opened = try_open(store, why);
    if (opened == OPENED_DAMAGED && mend(store, why)) {
        opened = try_open(store, why);
    }
    store_file_unlock(lock);
    return opened == OPENED;
}

static bool open_or_mend(TuneStore *store, const char **why)
{
    int lock = store_file_lock(store->arena, store->path, STORE_SHARED);
    Opened opened = try_open(store, why);
    store_file_unlock(lock);
    return opened == OPENED || (opened == OPENED_DAMAGED && mend_once(store, why));
}

bool tune_store_open(Arena *arena, const char *path, TuneAccess access, TuneStore **out,
                     const char **why)
{
    TuneStore *store = ARENA_NEW(arena, TuneStore);
    const char *place = path ? path : tune_store_place(arena);
    *store = (TuneStore){.arena = arena, .access = access};
    *out = NULL;
    if (!place) {
        *why = "there is no place for a tuning store: no home folder, and neither "
               "$TESSERA_TUNE_STORE nor $XDG_DATA_HOME";
        return false;
    }
    store->path = arena_strdup(arena, place);
    if (access == TUNE_WRITE && !store_file_make(store->path)) {
        return set_why(store, why, arena_printf(arena, "it cannot be made: %s", strerror(errno)));
    }
    StoreFile file = store_file_look(store->path);
    if (!file.exists) {
        return set_why(store, why, "there is no such file: `tessera tune` makes it");
    }
    if (!file.is_file) {
        return set_why(store, why, "it is no file");
    }
    /* A file that the user named may belong to a colleague; it may only be read. */
    if (file.is_other && (access == TUNE_WRITE || !path)) {
        return set_why(store, why, "others own it, or may write to it");
    }
    if (!open_or_mend(store, why)) {
        close_database(store);
        return false;
    }
    *out = store;
    return true;
}

void tune_store_close(TuneStore *store)
{
    if (store) {
        close_database(store);
    }
}

const char *tune_store_warning(TuneStore *store)
{
    const char *warning = store->warning;
    store->warning = NULL;
    return warning;
}

/* ---- writing ---- */

static bool check_length(const TuneStore *store, const TuneRecord *record, const char **why)
{
    TuneRecord copy = *record;
    size_t n = 0;
    for (int i = 0; i < ROW_TEXTS; i++) {
        const char *text = *row_text(&copy, i);
        n += text ? strlen(text) : 0;
    }
    bool fits = n <= MAX_ROW - MAX_MESSAGE &&
                (!record->candidate || strlen(record->candidate) <= MAX_CANDIDATE);
    return fits || set_why(store, why, "a record is too long");
}

/* True if the open file is still the one with this name. */
static bool is_current(const TuneStore *store)
{
    StoreFile now = store_file_look(store->path);
    return now.exists && now.inode == store->file.inode && now.device == store->file.device;
}

/* Another file may have this name by now, a repaired one or a new one. */
static Opened follow(TuneStore *store, const char **why)
{
    if (store->db && is_current(store)) {
        return OPENED;
    }
    close_database(store);
    return try_open(store, why);
}

/* Tries once, with a shared lock on the file. Returns SQLite's code, or why the file could not be
 * opened. */
static Opened put_shared(TuneStore *store, Arena *scratch, const TuneRecord *records, size_t n,
                         const StorePutting *putting, int *code, const char **why)
{
    Opened opened = OPENED_NOT;
    int lock = store_file_lock(scratch, store->path, STORE_SHARED);
    *code = SQLITE_OK;
    if (store_file_make(store->path)) {
        opened = follow(store, why);
    } else {
        set_why(store, why, arena_printf(store->arena, "it cannot be made: %s", strerror(errno)));
    }
    if (opened == OPENED) {
        *code = store_put_rows(store->db, scratch, records, n, putting);
        opened = *code == SQLITE_OK ? OPENED : is_damage(*code) ? OPENED_DAMAGED : OPENED_NOT;
    }
    store_file_unlock(lock);
    return opened;
}

static bool put_all(TuneStore *store, const TuneRecord *records, size_t n, StorePutting putting,
                    const char **why)
{
    Arena scratch;
    int code = SQLITE_OK;
    if (store->access != TUNE_WRITE) {
        return set_why(store, why, "it was opened to be read");
    }
    arena_init(&scratch, store->arena->allocator);
    bool done = false, good = true;
    for (int i = 0; i < MAX_TRIES && good && !done; i++) {
        if (putting.merged) {
            *putting.merged = (TuneMerged){0};
        }
        Opened opened = put_shared(store, &scratch, records, n, &putting, &code, why);
        done = opened == OPENED && is_current(store);
        good = opened == OPENED || (opened == OPENED_DAMAGED && mend_once(store, why));
    }
    arena_free(&scratch);
    if (!done && code != SQLITE_OK) {
        return set_failure(store, why, code);
    }
    return done || (good && set_why(store, why, "others replace it all the time"));
}

bool tune_store_insert(TuneStore *store, const TuneRecord *records, size_t n, const char **why)
{
    for (size_t i = 0; i < n; i++) {
        if (!check_length(store, &records[i], why)) {
            return false;
        }
    }
    return put_all(store, records, n, (StorePutting){0}, why);
}

bool tune_store_merge(TuneStore *into, TuneStore *from, TuneMerged *merged, const char **why)
{
    Arena arena;
    TuneRecords records = {0};
    arena_init(&arena, into->arena->allocator);
    *merged = (TuneMerged){0};
    bool good = tune_store_query(from, NULL, &arena, &records, why);
    good = good && put_all(into, records.items, records.n,
                           (StorePutting){.join = tune_record_join, .merged = merged}, why);
    arena_free(&arena);
    return good;
}

/* ---- reading ---- */

/* Tries once, with a shared lock on the file. A file that was removed meanwhile is still read. */
static Opened read_shared(TuneStore *store, const TuneFilter *filter, Arena *arena,
                          TuneRecords *records, size_t *damaged, int *code, const char **why)
{
    int64_t tables = 0;
    int lock = store_file_lock(arena, store->path, STORE_SHARED);
    Opened opened = store_file_look(store->path).exists ? follow(store, why) : OPENED;
    if (opened == OPENED) {
        *code = get_number(store->db, "SELECT count(*) FROM sqlite_schema", &tables);
        if (*code == SQLITE_OK && tables > 0) {
            *code = store_read_rows(store->db, filter, arena, records, damaged);
        }
        opened = is_damage(*code) ? OPENED_DAMAGED : OPENED;
    }
    store_file_unlock(lock);
    return opened;
}

bool tune_store_query(TuneStore *store, const TuneFilter *filter, Arena *arena,
                      TuneRecords *records, const char **why)
{
    size_t damaged = 0;
    *records = (TuneRecords){0};
    int code = SQLITE_OK;
    for (int i = 0; i < MAX_TRIES && !store->is_salvaged; i++) {
        records->n = damaged = 0;
        Opened opened = read_shared(store, filter, arena, records, &damaged, &code, why);
        if (opened == OPENED) {
            break;
        }
        if (opened == OPENED_NOT || !mend_once(store, why)) {
            return false;
        }
    }
    if (store->is_salvaged) {
        records->n = 0;
        for (size_t i = 0; i < store->salvaged.n; i++) {
            if (row_fits(&store->salvaged.items[i], filter)) {
                ARENA_PUSH(arena, records, store->salvaged.items[i]);
            }
        }
    } else if (code != SQLITE_OK) {
        return set_failure(store, why, code);
    }
    if (damaged > 0) {
        warn(store, arena_printf(store->arena, "%zu damaged row%s not used", damaged,
                                 damaged == 1 ? " is" : "s are"));
    }
    rows_sort(records);
    return true;
}
