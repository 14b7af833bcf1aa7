/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera doctor`: reports which drivers, devices and tools of this machine can be used, which
 * are missing, what is lost without them and how to get them. */
#include "cli/commands/cmd_functions.h"
#include "cli/interrupt.h"
#include "cli/json_write.h"
#include "cli/options.h"
#include "cli/session.h"

#include <string.h>

static const char *health_name(TesseraHealth health)
{
    if (health == TESSERA_HEALTHY) {
        return "ok";
    }
    return health == TESSERA_ABSENT ? "absent" : "broken";
}

/* ---- for people ---- */

enum { WIDTH = 96, MARGIN = 18, MAX_SECONDS = 60 };

/* Words, in lines that begin below the margin, from a column on. */
static void show_words(size_t column, const char *text)
{
    for (bool first = true; *text; first = false) {
        size_t n = strcspn(text, " \n");
        if (!first && column + 1 + n > WIDTH) {
            printf("\n%*s", MARGIN, "");
            column = MARGIN;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)n, text);
        column += n;
        text += n + strspn(text + n, " \n");
    }
    putchar('\n');
}

static void show_more(const char *before, const char *text)
{
    if (text) {
        show_words((size_t)printf("%*s%s: ", MARGIN, "", before), text);
    }
}

/* ---- JSON ---- */

static void member(const char *name, const char *text)
{
    printf(", \"%s\": ", name);
    if (text) {
        json_string(stdout, text);
    } else {
        fputs("null", stdout);
    }
}

static void show_finding_json(const TesseraFinding *finding, bool first)
{
    printf("%s\n  {\"part\": \"%s\"", first ? "" : ",", finding->part);
    member("health", health_name(finding->health));
    member("version", finding->version);
    member("text", finding->text);
    member("looked_for", finding->looked_for);
    member("cost", finding->cost);
    member("help", finding->help);
    if (finding->device) {
        const TesseraDeviceInfo *info = finding->device;
        printf(", \"device\": {\"kind\": \"%s\"", info->kind);
        member("name", info->name);
        member("target", info->target);
        printf(", \"units\": %d, \"warp\": %d, \"max_threads\": %d, \"shared_bytes\": %d, "
               "\"memory_bytes\": %zu}",
               info->units, info->warp, info->max_threads, info->shared_bytes, info->memory_bytes);
    }
    putchar('}');
}

/* ---- the command ---- */

/* `auto` needs the CPU alone; "cuda:1" that device, "cuda" any of them. */
static bool is_wanted(const TesseraFinding *finding, const char *wish)
{
    size_t n = strlen(wish);
    bool begins = strncmp(finding->part, wish, n) == 0;
    bool whole = begins && !finding->part[n];
    bool device = strchr(finding->part, ':') != NULL;
    return strcmp(wish, "cpu") == 0 || strchr(wish, ':') ? whole : begins && device;
}

static int judge(const TesseraFinding *findings, size_t n, const char *wish)
{
    const TesseraFinding *broken = NULL;
    bool has_wish = !wish || strcmp(wish, "auto") == 0;
    for (size_t i = 0; i < n; i++) {
        const TesseraFinding *finding = &findings[i];
        broken = !broken && finding->health == TESSERA_BROKEN ? finding : broken;
        has_wish = has_wish || (finding->health == TESSERA_HEALTHY && is_wanted(finding, wish));
    }
    if (!has_wish) {
        return fail_code(FAIL_NO_DEVICE, TESSERA_ENVIRONMENT, "no %.60s here that can be used",
                         wish);
    }
    return broken ? fail_code(FAIL_NO_DEVICE, TESSERA_ENVIRONMENT, "%s cannot be used: %s",
                              broken->part, broken->text)
                  : 0;
}

static void show(const TesseraFinding *findings, size_t n, bool json)
{
    if (!json) {
        for (size_t i = 0; i < n; i++) {
            const TesseraFinding *finding = &findings[i];
            const char *version = finding->version ? finding->version : "";
            int column = printf("%-10s%-8s%s%s", finding->part, health_name(finding->health),
                                version, *version ? ": " : "");
            show_words((size_t)column, finding->text);
            if (finding->health != TESSERA_HEALTHY) {
                show_more("looked for", finding->looked_for);
                show_more("without it", finding->cost);
                show_more("what to do", finding->help);
            }
        }
        return;
    }
    printf("{\"version\": \"%s\", \"findings\": [", tessera_version());
    for (size_t i = 0; i < n; i++) {
        show_finding_json(&findings[i], i == 0);
    }
    puts("]}");
}

int cmd_doctor(const Options *options)
{
    TesseraContext *context;
    const TesseraFinding *findings;
    size_t n;
    if (options->path) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "doctor takes no file");
    }
    int code = options->device ? check_device_name(options->device) : 0;
    if (code != 0) {
        return code;
    }
    if (tessera_context_new(NULL, &context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    Options limited = *options;
    limited.timeout = options->timeout == NOT_GIVEN ? MAX_SECONDS : options->timeout;
    run_begin(&limited, true, "doctor", "this machine");
    TesseraStatus status = tessera_doctor(context, &findings, &n);
    run_end();
    if (status == TESSERA_OK) {
        show(findings, n, options->json);
        fflush(stdout);
        code = judge(findings, n, options->device);
    } else {
        code = fail_context(context);
    }
    tessera_context_free(context);
    return code;
}
