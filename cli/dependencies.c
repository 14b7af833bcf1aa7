/* SPDX-License-Identifier: Apache-2.0 */
/* Writes dependency files for make and ninja in the form of C compilers: one rule for the output,
 * and an empty rule for each input, so that a deleted input does not stop make. */
#include "cli/output_files.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

/* Make's own signs are escaped; a line end cannot be. */
static void write_name(FILE *to, const char *name)
{
    for (; *name; name++) {
        if (*name == ' ' || *name == '#' || *name == '\\') {
            fputc('\\', to);
        } else if (*name == '$') {
            fputc('$', to);
        }
        fputc(*name, to);
    }
}

/* "a/b.ptx" becomes "a/b.d". */
static char *rule_path(const char *made)
{
    const char *slash = strrchr(made, '/');
    const char *dot = strrchr(slash ? slash : made, '.');
    size_t n = dot && dot > (slash ? slash + 1 : made) ? (size_t)(dot - made) : strlen(made);
    char *path = alloc_or_exit(n + 3);
    memcpy(path, made, n);
    memcpy(path + n, ".d", 2);
    return path;
}

int write_dependencies(const TesseraProgram *program, const char *made)
{
    OutFile out;
    const char *file;
    char *path = rule_path(made);
    int code = out_open(path, &out);
    if (code == 0) {
        write_name(out.file, made);
        fputc(':', out.file);
        for (size_t i = 0; (file = tessera_program_file(program, i)); i++) {
            fputs(" ", out.file);
            write_name(out.file, file);
        }
        fputc('\n', out.file);
        for (size_t i = 1; (file = tessera_program_file(program, i)); i++) {
            fputc('\n', out.file);
            write_name(out.file, file);
            fputs(":\n", out.file);
        }
        code = out_close(&out);
    }
    free(path);
    return code;
}
