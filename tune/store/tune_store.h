/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning store: measurements, one record per kernel, sizes, device and candidate.
 *
 * It is one SQLite file. Any number of processes of one host may write it at once, and it may be
 * on a file system with working locks (NFS with its lock daemon); jobs on a cluster write separate
 * stores and merge them. Each row has a digest of its contents, so a damaged row is ignored and
 * affects no other. If SQLite cannot read the file any more, the intact rows are recovered from
 * its bytes into a new file, and the old one is kept under another name. A file that is not a
 * store is never changed. */
#ifndef TESSERA_TUNE_STORE_TUNE_STORE_H
#define TESSERA_TUNE_STORE_TUNE_STORE_H

#include "support/text.h"

#include <stdint.h>

/* What came of a candidate. The names that tune_status_name gives are those of `tune show`. */
typedef enum TuneStatus {
    TUNE_OK,      /* measured; its answers are those of the derived schedule */
    TUNE_TIMEOUT, /* it, or its compilation, took too long */
    TUNE_CRASH,   /* a fault of the device, or its process ended */
    TUNE_WRONG,   /* its answers differ */
    TUNE_TOO_BIG, /* "does not fit": it was never launched */
    TUNE_REFUSED, /* the compiler refused its lines */
} TuneStatus;
enum { TUNE_STATUSES = TUNE_REFUSED + 1 };

/* What a sweep decided of a candidate. */
typedef enum TuneVerdict {
    TUNE_OPEN,   /* nothing: it was not in the last measurement, or there was none */
    TUNE_STAYS,  /* in the last measurement, and not surely faster than what is derived */
    TUNE_FASTER, /* in the last measurement, surely faster */
} TuneVerdict;

/* "ok", "timeout", "crash", "wrong", "does not fit", "refused". */
const char *tune_status_name(TuneStatus status);
/* False where it is none. */
bool tune_status_find(const char *name, TuneStatus *status);

/* One row. Texts are never NULL: "" where there is nothing. Those before `candidate`, with it and
 * `version`, are what tells rows apart; a store holds one row for each. */
typedef struct TuneRecord {
    /* Of tessera_tuning (<tessera/tessera.h>), as it gives them. */
    const char *kernel; /* its name in the source */
    const char *digest; /* of its IR as typed, before facts and schedule: 32 hexadecimal digits */
    const char *types;  /* types and consts: "D=128, T=bf16", by name */
    const char *bucket; /* the sizes' bucket: "K=4096..8191%64, M=4096..8191%64"
                         * (runtime/pins/size_bucket.h) */
    const char *sizes;  /* at which it was measured: "K=4096, M=4096", by name */
    const char *device; /* as tessera_device_info names it: "NVIDIA H200" */
    const char *arch; /* the target that it runs: "sm_90a"; of a CPU its name for LLVM: "znver4" */
    /* Lines as a schedule block holds them, keys in the order of ir/schedule.def, one key a line:
     * "tile M 128, N 256\npipeline 4". "": what the compiler derives. */
    const char *candidate;
    const char *version; /* of the compiler: tessera_version */

    TuneStatus status;
    bool derived;     /* what the compiler derives by itself; `candidate` may spell its lines out */
    int64_t count;    /* of measurements that the median is of */
    double median;    /* seconds; NaN where nothing was measured, also below */
    double low, high; /* of the median, 95 % confidence */
    double predicted; /* by the model that ranks */
    double roof;      /* the least that the device's bandwidth and arithmetic allow */
    /* How many times as fast as what is derived, of turns that the two took beside each other, with
     * the same confidence; NaN where they did not. Times of two sweeps cannot say it: a device is
     * not as fast today as yesterday. */
    double ratio, ratio_low, ratio_high;
    TuneVerdict verdict;
    int64_t when;        /* seconds since 1970 */
    const char *message; /* what was said of a failure; cut after MAX_MESSAGE bytes */
} TuneRecord;

enum { MAX_MESSAGE = 1000, MAX_CANDIDATE = 8000 };

typedef struct TuneStore TuneStore;

typedef enum TuneAccess {
    TUNE_READ,  /* it has to be there, and may be another user's */
    TUNE_WRITE, /* made when it is not there; others may not write to it */
} TuneAccess;

/* Where it is when nobody says: $TESSERA_TUNE_STORE, else $XDG_DATA_HOME/tessera/tune.db, else
 * $HOME/.local/share/tessera/tune.db; NULL: nobody knows. */
const char *tune_store_place(Arena *arena);

/* `path` NULL: tune_store_place. The arena holds the store, and is not the one of records. False:
 * `why` says what is wrong, in words for the user that name the file. */
bool tune_store_open(Arena *arena, const char *path, TuneAccess access, TuneStore **store,
                     const char **why);
void tune_store_close(TuneStore *store);
/* What was found damaged, or else should be known, since this was last asked: one line, or NULL. */
const char *tune_store_warning(TuneStore *store);

/* Adds n rows or puts them in the place of those with the same key, all or none, safe with other
 * processes that do the same; waits for them up to a minute. False: as above. */
bool tune_store_insert(TuneStore *store, const TuneRecord *records, size_t n, const char **why);

/* Which rows: NULL, any. */
typedef struct TuneFilter {
    const char *kernel, *digest, *types, *bucket, *sizes, *device, *arch, *candidate, *version;
} TuneFilter;

typedef struct TuneRecords {
    TuneRecord *items;
    size_t n, cap;
} TuneRecords;

/* Sorted by kernel, types, digest, device, arch, bucket, sizes, version; then those measured, the
 * fastest first, then the others by status and candidate. */
bool tune_store_query(TuneStore *store, const TuneFilter *filter, Arena *arena,
                      TuneRecords *records, const char **why);

typedef struct TuneMerged {
    size_t added, replaced, kept;
} TuneMerged;
/* All rows of `from`. Of two with one key, tune_record_join's goes on. */
bool tune_store_merge(TuneStore *into, TuneStore *from, TuneMerged *merged, const char **why);

/* Which of two rows of one key goes on. A crash or wrong answers win over all: no shard's fault is
 * lost. What was measured wins over other failures, more measurements over fewer; of others that
 * are as good the later. So it does not matter in which order stores are merged, nor how often. */
TuneRecord tune_record_join(const TuneRecord *a, const TuneRecord *b);
/* Are they of the same key? */
bool tune_record_same(const TuneRecord *a, const TuneRecord *b);

#endif
