/* SPDX-License-Identifier: Apache-2.0 */
/* Hints of the report: changes that were tried by compiling them (runtime/api/api_hints.c). */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_HINTS_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_HINTS_H

#include "runtime/explain/explain_report.h"

/* Keys of the schedule whose other values may mend what was found, the most promising first. */
typedef struct HintKeys {
    const char **items;
    size_t n, cap;
} HintKeys;
HintKeys hint_keys(const Report *report);

/* The share of the time that it saves. */
double hint_gain(const Hint *hint);
/* "tile N 128: the model expects 41.2 us instead of 61.7 us (-33 %)" */
void hint_words(const Report *report, const Hint *hint, Text *out);

#endif
