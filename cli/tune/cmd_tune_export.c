/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune export`: writes the records of the store as JSON or CSV. */
#include "cli/json_write.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune.h"

#include <math.h>
#include <string.h>

typedef struct Field {
    const char *name, *text; /* text NULL: */
    double number;           /* NaN: unknown */
} Field;

enum { N_FIELDS = 23 };

static void fields_of(const TuneRecord *r, Field fields[N_FIELDS])
{
    static const char *const verdicts[] = {"open", "stays", "faster"};
    const Field all[N_FIELDS] = {
        {"kernel", r->kernel, 0},
        {"digest", r->digest, 0},
        {"types", r->types, 0},
        {"bucket", r->bucket, 0},
        {"sizes", r->sizes, 0},
        {"device", r->device, 0},
        {"arch", r->arch, 0},
        {"candidate", r->candidate, 0},
        {"derived", NULL, r->derived},
        {"version", r->version, 0},
        {"status", tune_status_name(r->status), 0},
        {"count", NULL, (double)r->count},
        {"median_s", NULL, r->median},
        {"low_s", NULL, r->low},
        {"high_s", NULL, r->high},
        {"predicted_s", NULL, r->predicted},
        {"roof_s", NULL, r->roof},
        {"ratio", NULL, r->ratio},
        {"ratio_low", NULL, r->ratio_low},
        {"ratio_high", NULL, r->ratio_high},
        {"verdict", verdicts[r->verdict], 0},
        {"when", NULL, (double)r->when},
        {"message", r->message, 0},
    };
    memcpy(fields, all, sizeof all);
}

static void write_json(FILE *to, const TuneRecords *records)
{
    fputs("[", to);
    for (size_t i = 0; i < records->n; i++) {
        Field fields[N_FIELDS];
        fields_of(&records->items[i], fields);
        fputs(i ? ",\n  {" : "\n  {", to);
        for (int k = 0; k < N_FIELDS; k++) {
            fprintf(to, "%s\"%s\": ", k ? ", " : "", fields[k].name);
            if (fields[k].text) {
                json_string(to, fields[k].text);
            } else {
                json_number(to, fields[k].number);
            }
        }
        fputc('}', to);
    }
    fputs(records->n ? "\n]\n" : "]\n", to);
}

/* RFC 4180: what holds a comma, a quote or a line's end is quoted. */
static void csv_text(FILE *to, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (; *text; text++) {
        fputs(*text == '"' ? "\"" : "", to);
        fputc(*text, to);
    }
    fputc('"', to);
}

static void write_csv(FILE *to, const TuneRecords *records)
{
    Field fields[N_FIELDS];
    fields_of(&(TuneRecord){0}, fields);
    for (int k = 0; k < N_FIELDS; k++) {
        fprintf(to, "%s%s", k ? "," : "", fields[k].name);
    }
    fputc('\n', to);
    for (size_t i = 0; i < records->n; i++) {
        fields_of(&records->items[i], fields);
        for (int k = 0; k < N_FIELDS; k++) {
            fputs(k ? "," : "", to);
            if (fields[k].text) {
                csv_text(to, fields[k].text);
            } else if (!isnan(fields[k].number)) {
                fprintf(to, "%.15g", fields[k].number);
            }
        }
        fputc('\n', to);
    }
}

int tune_export(const Options *options)
{
    Arena arena;
    OutFile out;
    TuneRecords records;
    if (options->json && options->csv) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--json and --csv: one of them");
    }
    tune_arena(&arena);
    int code = tune_query(options, 0, &arena, &records);
    code = code ? code : out_open(options->outputs.n ? options->outputs.items[0] : "-", &out);
    if (code == 0) {
        if (options->csv) {
            write_csv(out.file, &records);
        } else {
            write_json(out.file, &records);
        }
        code = out_close(&out);
    }
    arena_free(&arena);
    return code;
}
