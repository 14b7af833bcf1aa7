/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons in the report, as text. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_WORDS_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_WORDS_H

#include "runtime/explain/explain_report.h"

/* A parameter's own name; of other values the printed one, or "". */
const char *value_words(const Func *func, const Value *value);
const char *dim_words(Func *func, Dim dim);
/* What its maker calls them: "multiprocessor" or "compute unit", "warp" or "wave". */
const char *unit_words(const Target *target);
const char *warp_words(const Target *target);
/* "134 MB": three digits. */
void scaled_words(Text *out, double value, const char *unit);
/* "1024 blocks of 256 threads, in clusters of 2" */
void shape_words(const Report *report, const LaunchReport *launch, Text *out);
/* "the grid takes 5.17 rounds", or what of the device the grid fills; "" where neither is known. */
const char *rounds_words(const Report *report, const LaunchReport *launch);
/* Which instruction multiplies, and what comes meanwhile; how its tiles fill the device. "": there
 * is none, or nothing is known. */
const char *product_words(const Report *report, const LaunchReport *launch);
const char *product_tiles_words(const Report *report, const LaunchReport *launch);
/* "116 us"; the same of what the model expects, with what limits it. */
void seconds_words(Text *out, double value);
void expected_words(Text *out, const LaunchReport *launch);
/* What of the numbers depends on data, in a sentence without its full stop; "": nothing. */
const char *course_words(const Report *report, const LaunchReport *launch);
/* What was sampled more coarsely than otherwise, since it would take too long; "": nothing. */
const char *sample_words(const LaunchReport *launch);
/* "M by 128, N by 256" */
const char *tiles_words(Func *func, const Op *launch);
/* Why an access is as wide as it is. */
const char *width_words(Func *func, const Op *op, Traffic kind);
/* What keeps it inside of its tensor. */
const char *guard_words(Func *func, const Op *op, Traffic kind);
/* Why it is a launch of its own, after those before it. */
const char *split_words(Func *func, const Op *launch);

#endif
