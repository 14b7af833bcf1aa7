/* SPDX-License-Identifier: Apache-2.0 */
/* Writes output files all or nothing: under a temporary name in the same folder, renamed at the
 * end. A target that is not an ordinary file (a pipe, /dev/null) is written directly. */
#include "cli/interrupt.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_read(const char *path)
{
    return fail_code(FAIL_READ, TESSERA_ENVIRONMENT, "cannot read %.300s: %s", path,
                     strerror(errno));
}

static int read_stream(FILE *stream, const char *path, char **text, size_t *n)
{
    size_t cap = 1 << 16;
    *text = alloc_or_exit(cap);
    while (!feof(stream)) {
        *n += fread(*text + *n, 1, cap - 1 - *n, stream);
        if (ferror(stream)) {
            return cannot_read(path);
        }
        if (*n == cap - 1) {
            char *more = alloc_or_exit(cap * 2);
            memcpy(more, *text, cap);
            free(*text);
            *text = more;
            cap *= 2;
        }
    }
    return 0;
}

int file_read(const char *path, char **text, size_t *n)
{
    *text = NULL;
    *n = 0;
    bool piped = strcmp(path, "-") == 0;
    FILE *stream = piped ? stdin : fopen(path, "rbe");
    int code = stream ? read_stream(stream, path, text, n) : cannot_read(path);
    if (stream && !piped) {
        fclose(stream);
    }
    if (code != 0) {
        free(*text);
        *text = NULL;
    }
    return code;
}

static int cannot_write(const char *path)
{
    return fail_code(FAIL_WRITE, TESSERA_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
}

static bool written_in_place(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static int open_temporary(OutFile *out)
{
    size_t n = strlen(out->path);
    out->temporary = alloc_or_exit(n + 16);
    snprintf(out->temporary, n + 16, "%s.XXXXXX", out->path);
    InterruptHold hold;
    interrupts_hold(&hold);
    int file = mkstemp(out->temporary);
    if (file >= 0) {
        interrupts_remove(out->temporary);
    }
    interrupts_release(&hold);
    if (file >= 0) {
        /* mkstemp makes private files; a result gets the mode of the user's mask. */
        mode_t mask = umask(0);
        umask(mask);
        fchmod(file, 0666 & ~mask);
        out->file = fdopen(file, "wb");
    }
    if (!out->file) {
        int code = cannot_write(out->path);
        out_cancel(out);
        return code;
    }
    return 0;
}

int out_open(const char *path, OutFile *out)
{
    *out = (OutFile){.path = path};
    if (strcmp(path, "-") == 0) {
        out->file = stdout;
        return 0;
    }
    if (!written_in_place(path)) {
        return open_temporary(out);
    }
    out->file = fopen(path, "wbe");
    return out->file ? 0 : cannot_write(path);
}

int out_close(OutFile *out)
{
    if (out->file == stdout) {
        return fflush(stdout) == 0 && !ferror(stdout) ? 0 : cannot_write("standard output");
    }
    bool bad = ferror(out->file) != 0;
    bad = fclose(out->file) != 0 || bad;
    out->file = NULL;
    if (bad || (out->temporary && rename(out->temporary, out->path) != 0)) {
        int code = cannot_write(out->path);
        out_cancel(out);
        return code;
    }
    interrupts_remove(NULL);
    free(out->temporary);
    out->temporary = NULL;
    return 0;
}

int out_bytes(const char *path, const TesseraBytes *bytes)
{
    OutFile out;
    int code = out_open(path, &out);
    if (code != 0) {
        return code;
    }
    fwrite(bytes->data, 1, bytes->n, out.file);
    return out_close(&out);
}

void out_cancel(OutFile *out)
{
    if (out->file && out->file != stdout) {
        fclose(out->file);
    }
    if (out->temporary) {
        unlink(out->temporary);
        interrupts_remove(NULL);
        free(out->temporary);
    }
    *out = (OutFile){0};
}
