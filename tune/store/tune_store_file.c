/* SPDX-License-Identifier: Apache-2.0 */
/* The file of the tuning store: its default path, the checks of its owner and permissions, its
 * lock, and the recovery of rows from a damaged file, which SQLite cannot read any more. */
#include "tune/store/tune_store_file.h"

#include "support/fd_io.h"
#include "tune/store/tune_store_row.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- where ---- */

static const char *set_variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

const char *tune_store_place(Arena *arena)
{
    const char *given = set_variable("TESSERA_TUNE_STORE");
    const char *xdg = set_variable("XDG_DATA_HOME"), *home = set_variable("HOME");
    if (given) {
        return given;
    }
    if (xdg && *xdg == '/') {
        return arena_printf(arena, "%s/tessera/tune.db", xdg);
    }
    return home && *home == '/' ? arena_printf(arena, "%s/.local/share/tessera/tune.db", home)
                                : NULL;
}

/* ---- whose ---- */

StoreFile store_file_look(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        bool hidden = errno != ENOENT; /* a folder that may not be searched, say */
        return (StoreFile){.exists = hidden, .is_file = hidden, .is_other = hidden};
    }
    bool is_file = S_ISREG(info.st_mode);
    bool ours = is_file && info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    return (StoreFile){true, is_file, !ours, info.st_dev, info.st_ino, info.st_size};
}

bool store_file_make(const char *path)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    char *part = arena_strdup(&arena, path);
    for (char *slash = strchr(part + (*part != '\0'), '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, S_IRWXU);
        *slash = '/';
    }
    arena_free(&arena);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file >= 0) {
        close(file);
    }
    return file >= 0 || errno == EEXIST;
}

/* ---- salvage ---- */

typedef struct Bytes {
    const unsigned char *at, *end;
} Bytes;

/* A number of 1 to 9 bytes, as SQLite writes lengths; false at the end. */
static bool take_length(Bytes *bytes, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < 9 && bytes->at < bytes->end; i++) {
        unsigned char byte = *bytes->at++;
        if (i == 8) {
            *value = *value << 8 | byte;
            return true;
        }
        *value = *value << 7 | (byte & 0x7f);
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* Reads a value of SQLite's record format, whose type determines its length. */
typedef struct Field {
    uint64_t type;
    const unsigned char *at;
    size_t n;
} Field;

static size_t bytes_of_type(uint64_t type)
{
    static const unsigned char sizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    return type < 10 ? sizes[type] : type < 12 ? SIZE_MAX : (size_t)((type - 12) / 2);
}

static int64_t integer_of(const Field *field)
{
    if (field->type == 8 || field->type == 9) {
        return field->type == 9;
    }
    uint64_t value = field->n && (field->at[0] & 0x80) ? UINT64_MAX : 0;
    for (size_t i = 0; i < field->n; i++) {
        value = value << 8 | field->at[i];
    }
    return (int64_t)value;
}

/* SQLite stores whole numbers as integers, and NaN as NULL. */
static double number_of(const Field *field)
{
    double value;
    if (field->type == 0) {
        return (double)__builtin_nanf("");
    }
    uint64_t bits = (uint64_t)integer_of(field);
    memcpy(&value, &bits, sizeof value);
    return field->type == 7 ? value : (double)integer_of(field);
}

static bool is_text(const Field *field)
{
    return field->type >= 13 && field->type % 2 == 1 && !memchr(field->at, 0, field->n);
}

static const char *text_of(Arena *arena, const Field *field)
{
    return arena_strndup(arena, (const char *)field->at, field->n);
}

/* All fields of a record that begins here, as many as each of the schemas has; false: none does. */
static bool split(Bytes bytes, Field fields[ROW_COLUMNS], int *n)
{
    const unsigned char *start = bytes.at;
    uint64_t header;
    if (!take_length(&bytes, &header) || header < ROW_COLUMNS_1 + 1 ||
        header > (uint64_t)(bytes.end - start)) {
        return false;
    }
    Bytes types = {bytes.at, start + header};
    const unsigned char *body = start + header;
    *n = 0;
    for (int i = 0; i < ROW_COLUMNS && types.at < types.end; i++, ++*n) {
        if (!take_length(&types, &fields[i].type)) {
            return false;
        }
        fields[i].n = bytes_of_type(fields[i].type);
        fields[i].at = body;
        if (fields[i].n > (size_t)(bytes.end - body)) {
            return false;
        }
        body += fields[i].n;
    }
    return types.at == types.end && (*n == ROW_COLUMNS || *n == ROW_COLUMNS_1) &&
           fields[COLUMN_ID].type == 0;
}

static bool read_row(Arena *arena, Bytes bytes, TuneRecord *record)
{
    Field fields[ROW_COLUMNS];
    unsigned char sum[ROW_SUM];
    int n;
    if (!split(bytes, fields, &n) || fields[COLUMN_SUM].n != ROW_SUM) {
        return false;
    }
    bool texts = is_text(&fields[COLUMN_STATUS]) && is_text(&fields[COLUMN_MESSAGE]);
    for (int i = 0; i < ROW_TEXTS; i++) {
        texts = texts && is_text(&fields[COLUMN_TEXTS + i]);
    }
    if (!texts || !tune_status_find(text_of(arena, &fields[COLUMN_STATUS]), &record->status)) {
        return false;
    }
    for (int i = 0; i < ROW_TEXTS; i++) {
        *row_text(record, i) = text_of(arena, &fields[COLUMN_TEXTS + i]);
    }
    row_without_ratios(record);
    for (int i = 0; i < ROW_RATIOS && n == ROW_COLUMNS; i++) {
        *row_ratio(record, i) = number_of(&fields[COLUMN_RATIOS + i]);
    }
    int64_t verdict = n == ROW_COLUMNS ? integer_of(&fields[COLUMN_VERDICT]) : 0;
    record->verdict = verdict > 0 && verdict <= TUNE_FASTER ? (TuneVerdict)verdict : TUNE_OPEN;
    for (int i = 0; i < ROW_NUMBERS; i++) {
        *row_number(record, i) = number_of(&fields[COLUMN_NUMBERS + i]);
    }
    record->derived = integer_of(&fields[COLUMN_DERIVED]) != 0;
    record->count = integer_of(&fields[COLUMN_COUNT]);
    record->when = integer_of(&fields[COLUMN_WHEN]);
    record->message = text_of(arena, &fields[COLUMN_MESSAGE]);
    row_sum(record, sum);
    return memcmp(sum, fields[COLUMN_SUM].at, ROW_SUM) == 0;
}

static unsigned char *read_file(Arena *arena, const char *path, size_t *n)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *bytes = NULL;
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
        *n = (size_t)info.st_size;
        bytes = arena_alloc(arena, *n + 1);
        bytes = fd_read(file, bytes, *n) ? bytes : NULL;
    }
    if (file >= 0) {
        close(file);
    }
    return bytes;
}

/* Every byte is tried as the begin of a row, because the page headers themselves may be damaged.
 * The digest distinguishes rows from bytes that only look like one. */
bool store_file_salvage(Arena *arena, const char *path, TuneRecords *records, bool *ours)
{
    static const unsigned char mark[] = {0x54, 0x53, 0x54, 0x75};
    size_t n;
    const unsigned char *bytes = read_file(arena, path, &n);
    if (!bytes) {
        return false;
    }
    *ours = n >= 72 && memcmp(bytes + 68, mark, sizeof mark) == 0;
    for (size_t at = 0; at < n; at++) {
        size_t page = at / STORE_PAGE * STORE_PAGE + STORE_PAGE;
        TuneRecord record = {0};
        if (read_row(arena, (Bytes){bytes + at, bytes + (page < n ? page : n)}, &record)) {
            ARENA_PUSH(arena, records, record);
        }
    }
    *ours = *ours || records->n > 0;
    rows_sort(records);
    return true;
}

/* ---- in its place ---- */

const char *store_file_replace(Arena *arena, const char *path, const char *with)
{
    enum { MAX_ASIDE = 1000 };
    const char *journal = arena_printf(arena, "%s-journal", path);
    for (int i = 1; i < MAX_ASIDE; i++) {
        const char *aside = arena_printf(arena, "%s.damaged-%d", path, i);
        bool linked = link(path, aside) == 0;
        bool links = linked || (errno != EPERM && errno != EOPNOTSUPP);
        if (linked || (!links && access(aside, F_OK) != 0 && rename(path, aside) == 0)) {
            /* Otherwise SQLite would roll the old journal back into the new file. */
            if (rename(journal, arena_printf(arena, "%s-journal", aside)) != 0 && errno != ENOENT) {
                return NULL;
            }
            return rename(with, path) == 0 ? aside : NULL;
        }
        if (links && errno != EEXIST) {
            return NULL;
        }
    }
    return NULL;
}

int store_file_lock(Arena *arena, const char *path, StoreSharing sharing)
{
    const char *slash = strrchr(path, '/');
    const char *folder = slash ? arena_strndup(arena, path, (size_t)(slash - path) + 1) : ".";
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) {
        return -1;
    }
    int locked;
    do {
        locked = flock(lock, sharing == STORE_ALONE ? LOCK_EX : LOCK_SH);
    } while (locked != 0 && errno == EINTR);
    if (locked != 0) {
        close(lock);
        return -1;
    }
    return lock;
}

void store_file_unlock(int lock)
{
    if (lock >= 0) {
        close(lock);
    }
}
