/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the program `tessera`: one function per command, and the table that
 * tessera_main.c holds. */
#ifndef TESSERA_CLI_CLI_H
#define TESSERA_CLI_CLI_H

#include "cli/options.h"
#include "cli/session.h"

int cmd_run(const Options *options);
int cmd_compile(const Options *options);
/* Several targets or variants, in one object (cmd_bundle.c). */
bool is_bundle(const Options *options);
int check_bundle(const Options *options);
int compile_bundle(const Options *options, Session *session);
int cmd_explain(const Options *options);
/* `explain E0412`, and `explain` alone (cmd_explain_code.c). */
bool is_code(const char *text);
int explain_code(const Options *options);
int cmd_bench(const Options *options);
int cmd_check(const Options *options);
int cmd_tune(const Options *options);
int cmd_fmt(const Options *options);
int cmd_doctor(const Options *options);
int cmd_cache(const Options *options);
int cmd_tune(const Options *options);
int cmd_targets(const Options *options);
int cmd_help(const Options *options);
int cmd_version(const Options *options);

#endif
