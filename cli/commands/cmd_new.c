/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera new NAME`: a folder with a kernel, a program that runs it, a test and a CMake project,
 * from the files of templates/project. It touches nothing that is there. */
#include "cli/commands/cmd_functions.h"
#include "cli/embedded_file.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAME = 40 };

/* The name becomes a part of names of C and of CMake's targets. */
static bool is_name(const char *name)
{
    static const char taken[] = " all clean help install package test ";
    char word[MAX_NAME + 3];
    size_t n = strlen(name);
    bool fits = n > 0 && n <= MAX_NAME && islower((unsigned char)*name);
    for (size_t i = 0; i < n && fits; i++) {
        unsigned char c = (unsigned char)name[i];
        fits = islower(c) || isdigit(c) || c == '_';
    }
    snprintf(word, sizeof word, " %.*s ", MAX_NAME, name);
    return fits && !strstr(taken, word);
}

/* The template's file with the project's name in place of @NAME@. */
static int write_file(const char *name, const EmbeddedFile *file)
{
    static const char MARK[] = "@NAME@";
    const char *at = file->text, *mark;
    char path[MAX_NAME + 64];
    bool kernel = strcmp(file->name, "kernel.tile") == 0;
    bool ignore = strcmp(file->name, "gitignore") == 0;
    snprintf(path, sizeof path, "%s/%s%s", name, ignore ? "." : "", kernel ? name : file->name);
    OutFile out;
    int code = out_open(kernel ? strcat(path, ".tile") : path, &out);
    if (code != 0) {
        return code;
    }
    while ((mark = strstr(at, MARK))) {
        fprintf(out.file, "%.*s%s", (int)(mark - at), at, name);
        at = mark + sizeof MARK - 1;
    }
    fputs(at, out.file);
    return out_close(&out);
}

/* The folder in which this program is installed, as /usr/local of /usr/local/bin/tessera. */
static const char *prefix(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    for (int level = 0; level < 2; level++) {
        while (n > 0 && path[n - 1] != '/') {
            n--;
        }
        n--;
    }
    return n > 0 ? session_text(path, (size_t)n) : "FOLDER_OF_TESSERA";
}

int cmd_new(const Options *options)
{
    const char *name = options->path;
    if (!name || options->values.n > 0) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "new needs one name: tessera new NAME");
    }
    if (!is_name(name) || options->kernel) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "new %.60s: a name has small letters, digits and `_`, at most %d, begins "
                         "with a letter, and is none of CMake's own targets",
                         name, MAX_NAME);
    }
    if (mkdir(name, 0777) != 0) {
        return fail_code(FAIL_WRITE, TESSERA_ENVIRONMENT, "cannot make the directory %s: %s", name,
                         strerror(errno));
    }
    int code = 0;
    for (const EmbeddedFile *file = project_files; file->name && code == 0; file++) {
        code = write_file(name, file);
    }
    if (code == 0) {
        printf("%s is made. Build and test it:\n\n    cd %s\n"
               "    cmake -S . -B build -DCMAKE_PREFIX_PATH='%s'\n"
               "    cmake --build build && ctest --test-dir build\n",
               name, name, prefix());
    }
    return code;
}
