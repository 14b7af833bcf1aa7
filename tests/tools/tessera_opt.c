/* SPDX-License-Identifier: Apache-2.0 */
/* Reads IR text, runs passes, verifies and prints: the tool for the text tests of the passes.
 *
 *     tessera-opt [--target NAME] [--pass NAME]… [--set KEY[.SUB]=VALUE]… [FILE | -]
 *
 * Without --pass it only parses, verifies and prints. The exit code is 1 after a diagnostic. */
#include "ir/text/ir_text.h"
#include "tests/tools/shared/ir_tool.h"

#include <stdio.h>

enum { MAX_NAMES = 32 };

static const char tool[] = "tessera-opt";

typedef struct Options {
    const char *target, *file;
    const char *passes[MAX_NAMES], *entries[MAX_NAMES];
    int n_passes, n_entries;
} Options;

static int process(Diags *diags, const void *given)
{
    const Options *options = given;
    Func *func = tool_read_func(tool, diags, options->file, options->target);
    if (!func) {
        return 1;
    }
    for (int i = 0; i < options->n_entries; i++) {
        if (!tool_add_entry(func, options->entries[i])) {
            return tool_complain(tool, "no schedule entry", options->entries[i]);
        }
    }
    int status = tool_run_passes(tool, func, options->passes, options->n_passes);
    Text out = text_new(diags->arena);
    print_func(func, &out);
    fputs(out.data, stdout);
    return status;
}

int main(int argc, char **argv)
{
    Options options = {.file = "-"};
    const char *value;
    for (int at = 1; at < argc; at++) {
        if (tool_take(argc, argv, &at, "--target", &value)) {
            options.target = value;
        } else if (tool_take(argc, argv, &at, "--pass", &value) && options.n_passes < MAX_NAMES) {
            options.passes[options.n_passes++] = value;
        } else if (tool_take(argc, argv, &at, "--set", &value) && options.n_entries < MAX_NAMES) {
            options.entries[options.n_entries++] = value;
        } else {
            options.file = argv[at];
        }
    }
    return tool_main(process, &options);
}
