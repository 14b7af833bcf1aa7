/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations for the subcommands of `tessera tune` that read the tuning store. */
#ifndef TESSERA_CLI_TUNE_CMD_TUNE_H
#define TESSERA_CLI_TUNE_CMD_TUNE_H

#include "cli/options.h"
#include "tune/store/tuning_case.h"

/* `show`, `diff`, …: false when the first word is none of them, and a source is to be tuned. */
bool tune_verb(const Options *options, int *code);

/* An arena whose end is the program's where there is no more memory. */
void tune_arena(Arena *arena);
/* `kernel=linear device="NVIDIA H200"` from values[first] on; a word alone is the kernel's name. */
int tune_filter(const Options *options, size_t first, TuneFilter *filter);
/* 0, or an exit code after a message; what the store warns of is told once. */
int tune_open(const Options *options, const char *path, TuneAccess access, Arena *arena,
              TuneStore **store);
void tune_warn(TuneStore *store);
/* Opens the store of --store to be read, and queries it. */
int tune_query(const Options *options, size_t first_word, Arena *arena, TuneRecords *records);
int tune_failed(const char *why);

int tune_show(const Options *options);
int tune_diff(const Options *options);
int tune_export(const Options *options);
int tune_pin(const Options *options);
int tune_merge(const Options *options);
int tune_report(const Options *options);

#endif
