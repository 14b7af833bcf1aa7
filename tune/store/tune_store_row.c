/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of one record, its digest, and the order of records. The digest lets a reader skip
 * damaged rows instead of failing. */
#define XXH_STATIC_LINKING_ONLY /* states that are not on the heap */
#include "tune/store/tune_store_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char *const STATUSES[TUNE_STATUSES] = {"ok",    "timeout",      "crash",
                                                    "wrong", "does not fit", "refused"};

const char *tune_status_name(TuneStatus status)
{
    return STATUSES[status];
}

bool tune_status_find(const char *name, TuneStatus *status)
{
    for (int i = 0; i < TUNE_STATUSES; i++) {
        if (text_equal(STATUSES[i], name)) {
            *status = (TuneStatus)i;
            return true;
        }
    }
    return false;
}

/* ---- fields ---- */

const char **row_text(TuneRecord *r, int i)
{
    const char **texts[ROW_TEXTS] = {&r->kernel, &r->digest, &r->types,     &r->bucket, &r->sizes,
                                     &r->device, &r->arch,   &r->candidate, &r->version};
    return texts[i];
}

static const char *text_of(const TuneRecord *record, int i)
{
    TuneRecord copy = *record;
    return *row_text(&copy, i);
}

double *row_number(TuneRecord *r, int i)
{
    double *numbers[] = {&r->median, &r->low, &r->high, &r->predicted, &r->roof};
    return numbers[i];
}

double *row_ratio(TuneRecord *r, int i)
{
    double *numbers[] = {&r->ratio, &r->ratio_low, &r->ratio_high};
    return numbers[i];
}

void row_without_ratios(TuneRecord *record)
{
    record->ratio = record->ratio_low = record->ratio_high = (double)NAN;
    record->verdict = TUNE_OPEN;
}

static void add_text(XXH3_state_t *state, const char *text)
{
    uint64_t n = strlen(text);
    XXH3_128bits_update(state, &n, sizeof n);
    XXH3_128bits_update(state, text, n);
}

static void add_number(XXH3_state_t *state, double number)
{
    number = isnan(number) ? (double)NAN : number; /* SQLite has only one NaN */
    XXH3_128bits_update(state, &number, sizeof number);
}

static void add_integer(XXH3_state_t *state, int64_t number)
{
    XXH3_128bits_update(state, &number, sizeof number);
}

static void add_key(XXH3_state_t *state, const TuneRecord *record)
{
    for (int i = 0; i < ROW_TEXTS; i++) {
        add_text(state, text_of(record, i));
    }
}

/* 63 bits of a digest: enough that two keys of one store practically never share it. */
int64_t row_id(const TuneRecord *record)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    add_key(&state, record);
    return (int64_t)(XXH3_128bits_digest(&state).low64 >> 1);
}

void row_sum(const TuneRecord *record, unsigned char sum[ROW_SUM])
{
    TuneRecord copy = *record;
    XXH128_canonical_t canonical;
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    add_text(&state, "tessera tune 1");
    add_key(&state, record);
    add_text(&state, tune_status_name(record->status));
    add_integer(&state, record->derived);
    add_integer(&state, record->count);
    for (int i = 0; i < ROW_NUMBERS; i++) {
        add_number(&state, *row_number(&copy, i));
    }
    add_integer(&state, record->when);
    add_text(&state, record->message);
    bool has_ratios = record->ratio > 0 || record->verdict != TUNE_OPEN;
    for (int i = 0; i < ROW_RATIOS && has_ratios; i++) { /* else as in schema 1 */
        add_number(&state, *row_ratio(&copy, i));
    }
    if (has_ratios) {
        add_integer(&state, record->verdict);
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(sum, canonical.digest, ROW_SUM);
}

TuneRecord row_clean(Arena *arena, const TuneRecord *record)
{
    TuneRecord clean = *record;
    for (int i = 0; i < ROW_TEXTS; i++) {
        const char **text = row_text(&clean, i);
        *text = *text ? *text : "";
    }
    clean.message = clean.message ? clean.message : "";
    if (strlen(clean.message) > MAX_MESSAGE) {
        size_t n = MAX_MESSAGE;
        while (n > 0 && ((unsigned char)clean.message[n] & 0xc0) == 0x80) {
            n--; /* no half of a character */
        }
        clean.message = arena_strndup(arena, clean.message, n);
    }
    return clean;
}

/* ---- which ---- */

static const char *wanted(const TuneFilter *f, int i)
{
    const char *texts[ROW_TEXTS] = {f->kernel, f->digest, f->types,     f->bucket, f->sizes,
                                    f->device, f->arch,   f->candidate, f->version};
    return texts[i];
}

bool row_fits(const TuneRecord *record, const TuneFilter *filter)
{
    for (int i = 0; filter && i < ROW_TEXTS; i++) {
        const char *want = wanted(filter, i);
        if (want && !text_equal(want, text_of(record, i))) {
            return false;
        }
    }
    return true;
}

bool tune_record_same(const TuneRecord *a, const TuneRecord *b)
{
    for (int i = 0; i < ROW_TEXTS; i++) {
        if (!text_equal(text_of(a, i), text_of(b, i))) {
            return false;
        }
    }
    return true;
}

static int compare_medians(const TuneRecord *a, const TuneRecord *b)
{
    if (a->status != b->status) {
        return a->status < b->status ? -1 : 1;
    }
    if (a->status != TUNE_OK || a->median == b->median) {
        return 0;
    }
    return isnan(b->median) || a->median < b->median ? -1 : 1;
}

static int compare_rows(const void *left, const void *right)
{
    static const int order[] = {0, 2, 1, 5, 6, 3, 4, 8}; /* kernel, types, digest, device, … */
    const TuneRecord *a = left, *b = right;
    int by = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order && by == 0; i++) {
        by = strcmp(text_of(a, order[i]), text_of(b, order[i]));
    }
    by = by ? by : compare_medians(a, b);
    return by ? by : strcmp(a->candidate, b->candidate);
}

static int compare_keys(const void *left, const void *right)
{
    const TuneRecord *a = left, *b = right;
    int by = 0;
    for (int i = 0; i < ROW_TEXTS && by == 0; i++) {
        by = strcmp(text_of(a, i), text_of(b, i));
    }
    return by ? by : a->when > b->when ? -1 : a->when < b->when; /* the newest first */
}

static void sort(TuneRecords *records, int (*compare)(const void *, const void *))
{
    if (records->n > 0) {
        qsort(records->items, records->n, sizeof *records->items, compare);
    }
}

void rows_sort(TuneRecords *records)
{
    size_t n = 0;
    sort(records, compare_keys);
    for (size_t i = 0; i < records->n; i++) {
        if (n == 0 || !tune_record_same(&records->items[n - 1], &records->items[i])) {
            records->items[n++] = records->items[i];
        }
    }
    records->n = n;
    sort(records, compare_rows);
}

/* ---- joining ---- */

static int weight_of(TuneStatus status)
{
    return status == TUNE_CRASH || status == TUNE_WRONG ? 2 : status == TUNE_OK;
}

/* Records of the same second are in any order, but always in the same one. */
static bool is_later(const TuneRecord *a, const TuneRecord *b)
{
    unsigned char left[ROW_SUM], right[ROW_SUM];
    row_sum(a, left);
    row_sum(b, right);
    return a->when != b->when ? a->when > b->when : memcmp(left, right, ROW_SUM) > 0;
}

TuneRecord tune_record_join(const TuneRecord *a, const TuneRecord *b)
{
    const TuneRecord *later = is_later(a, b) ? a : b;
    int left = weight_of(a->status), right = weight_of(b->status);
    if (left != right) {
        return left > right ? *a : *b;
    }
    bool measured = left == 1 && a->count != b->count;
    return !measured ? *later : a->count > b->count ? *a : *b;
}
