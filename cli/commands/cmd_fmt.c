/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera fmt`: formats source files. A file is replaced as a whole, and only if its text
 * changes. */
#include "cli/commands/cmd_functions.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Source {
    const char *name;
    char *text;
    size_t n;
} Source;

/* The file that a link leads to, with the mode that it has. */
static int write_back(const char *name, const char *text)
{
    OutFile out;
    struct stat facts;
    char *path = realpath(name, NULL);
    if (!path || stat(path, &facts) != 0) {
        free(path);
        return fail_code(FAIL_READ, TESSERA_ENVIRONMENT, "cannot read %.300s: %s", name,
                         strerror(errno));
    }
    int code = out_open(path, &out);
    if (code == 0) {
        fchmod(fileno(out.file), facts.st_mode & 07777);
        fputs(text, out.file);
        code = out_close(&out);
    }
    free(path);
    return code;
}

static int format_one(const Options *options, TesseraContext *context, Source *source)
{
    const char *formatted;
    bool piped = strcmp(source->name, "-") == 0;
    if (tessera_format(context, piped ? "<standard input>" : source->name, source->text, source->n,
                       &formatted) != TESSERA_OK) {
        return fail_context(context);
    }
    bool same = strlen(formatted) == source->n && memcmp(formatted, source->text, source->n) == 0;
    if (options->check) {
        if (!same) {
            printf("%s\n", source->name);
        }
        return same ? 0 : TESSERA_SOURCE;
    }
    if (piped) {
        fputs(formatted, stdout);
        return 0;
    }
    return same ? 0 : write_back(source->name, formatted);
}

static int format_file(const Options *options, TesseraContext *context, const char *name)
{
    Source source = {.name = name};
    int code = file_read(name, &source.text, &source.n);
    code = code ? code : format_one(options, context, &source);
    free(source.text);
    return code;
}

int cmd_fmt(const Options *options)
{
    TesseraContext *context;
    int worst = 0;
    if (tessera_context_new(NULL, &context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    for (size_t i = 0; i < options->values.n; i++) {
        int code = format_file(options, context, options->values.items[i]);
        worst = code > worst ? code : worst;
    }
    tessera_context_free(context);
    return worst;
}
