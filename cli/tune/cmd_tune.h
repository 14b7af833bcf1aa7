/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations for the subcommands of `tessera tune` that read the tuning store. */
#ifndef TESSERA_CLI_TUNE_CMD_TUNE_H
#define TESSERA_CLI_TUNE_CMD_TUNE_H

#include "cli/options.h"
#include "tune/store/tuning_case.h"

int cmd_tune(const Options *options);

/* ---- the store (store_access.c); functions return 0, or an exit code after a message ---- */

/* An arena that ends the program if there is no memory. */
void tune_arena(Arena *arena);
/* Parses `kernel=linear device="NVIDIA H200"` from values[first] on; a word without `=` is the name
 * of a kernel. */
int tune_filter(const Options *options, size_t first, TuneFilter *filter);
/* Opens a store, or that of --store if path is NULL, and prints its warning. */
int tune_open(const Options *options, const char *path, TuneAccess access, Arena *arena,
              TuneStore **store);
/* Prints the store's warning, if it has a new one. */
void tune_warn(TuneStore *store);
/* Opens the store of --store for reading, and queries it. */
int tune_query(const Options *options, size_t first_word, Arena *arena, TuneRecords *records);
/* Reports an error of the store. */
int tune_failed(const char *why);

/* ---- the subcommands ---- */

int tune_show(const Options *options);
int tune_diff(const Options *options);
int tune_export(const Options *options);
int tune_pin(const Options *options);
int tune_merge(const Options *options);
int tune_report(const Options *options);

#endif
