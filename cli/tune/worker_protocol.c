/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that both roles of sweep workers use: they read a request, compile a candidate and
 * put an error into an answer. */
#include "cli/session.h"
#include "cli/tune/cmd_tune_sweep.h"
#include "runtime/api/api_search.h"

#include <stdlib.h>
#include <string.h>

bool sweep_read(char **line, size_t *capacity)
{
    ssize_t n = getline(line, capacity, stdin);
    if (n > 0 && (*line)[n - 1] == '\n') {
        (*line)[n - 1] = '\0';
    }
    return n > 0;
}

const char *sweep_error_text(const SweepWork *work)
{
    static char words[800];
    const char *message = tessera_error(work->session.context)->message;
    const TesseraDiagnostic *items;
    size_t n = tessera_diagnostics(work->session.context, &items);
    for (size_t i = n; i-- > 0;) { /* the first error, without its location */
        message = items[i].severity == TESSERA_IS_ERROR ? items[i].message : message;
    }
    snprintf(words, sizeof words, "%s", message ? message : "nothing was said");
    for (char *at = words; *at; at++) {
        *at = (char)(*at == '\n' ? ' ' : *at);
    }
    return words;
}

const char *sweep_error_kind(const SweepWork *work)
{
    const TesseraDiagnostic *items;
    size_t n = tessera_diagnostics(work->session.context, &items);
    for (size_t i = 0; i < n; i++) {
        if (items[i].severity == TESSERA_IS_ERROR && tessera_code_is_room(items[i].code)) {
            return "room";
        }
    }
    return "refused";
}

TesseraKernel *sweep_compile(SweepWork *work, const char *lines)
{
    size_t most = work->compile.n_lines + strlen(lines) / 2 + 1; /* a line is not empty */
    const char **all = alloc_or_exit(most * sizeof *all);
    TesseraOptions options = work->compile;
    TesseraKernel *kernel = NULL;
    char *copy = copy_or_exit(lines, strlen(lines)), *state = NULL;
    options.n_lines = 0;
    for (; options.n_lines < work->compile.n_lines; options.n_lines++) {
        all[options.n_lines] = work->compile.lines[options.n_lines];
    }
    for (char *line = strtok_r(copy, ";", &state); line; line = strtok_r(NULL, ";", &state)) {
        all[options.n_lines++] = line;
    }
    options.lines = all;
    tessera_compile(work->session.program, &options, &kernel);
    free(copy);
    free(all);
    return kernel;
}
