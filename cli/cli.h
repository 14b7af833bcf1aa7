/* SPDX-License-Identifier: Apache-2.0 */
/* The commands. */
#ifndef TESSERA_CLI_CLI_H
#define TESSERA_CLI_CLI_H

#include "cli/options.h"
#include "cli/session.h"

int verb_run(const Options *options);
int verb_compile(const Options *options);
/* Several targets or variants, in one object (cmd_bundle.c). */
bool is_bundle(const Options *options);
int check_bundle(const Options *options);
int compile_bundle(const Options *options, Session *session);
int verb_explain(const Options *options);
/* `explain E0412`, and `explain` alone (cmd_explain_code.c). */
bool is_code(const char *text);
int explain_code(const Options *options);
int verb_bench(const Options *options);
int verb_check(const Options *options);
int verb_tune(const Options *options);
int verb_fmt(const Options *options);
int verb_doctor(const Options *options);
int verb_cache(const Options *options);
int verb_tune(const Options *options);
int verb_targets(const Options *options);
int verb_help(const Options *options);
int verb_version(const Options *options);

#endif
