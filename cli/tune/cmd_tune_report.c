/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune report`: prints the results of sweeps as text, JSON or HTML. */
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune.h"

#include "tune/report/tune_report.h"

static void write_reports(const Options *options, Arena *arena, const Report *reports, size_t n,
                          Text *out)
{
    if (options->html) {
        tune_report_html(arena, reports, n, out);
        return;
    }
    text_add(out, options->json ? "[" : "");
    for (size_t i = 0; i < n; i++) {
        if (options->json) {
            text_add(out, i ? ",\n " : "\n ");
            tune_report_json(&reports[i], out);
        } else {
            text_add(out, i ? "\n" : "");
            tune_report_text(arena, &reports[i], out);
        }
    }
    text_add(out, options->json ? "\n]\n" : "");
}

int tune_report(const Options *options)
{
    Arena arena;
    OutFile out;
    TuneRecords records;
    TuningCases groups;
    if (options->json && options->html) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--json and --html FILE: one of them");
    }
    tune_arena(&arena);
    int code = tune_query(options, 0, &arena, &records);
    if (code == 0 && records.n == 0) {
        code = fail_code(FAIL_STORE, TESSERA_USAGE, "nothing of this was measured");
    }
    const char *path = "-";
    if (options->html) {
        path = options->html;
    } else if (options->outputs.n) {
        path = options->outputs.items[0];
    }
    code = code ? code : out_open(path, &out);
    if (code == 0) {
        Text text = text_new(&arena);
        tune_groups(&arena, &records, &groups);
        Report *reports = ARENA_ARRAY(&arena, Report, groups.n);
        for (size_t i = 0; i < groups.n; i++) {
            tune_report_make(&arena, &groups.items[i], &reports[i]);
        }
        write_reports(options, &arena, reports, groups.n, &text);
        fwrite(text.data, 1, text.n, out.file);
        code = out_close(&out);
    }
    arena_free(&arena);
    return code;
}
