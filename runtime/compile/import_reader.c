/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files that a program imports: only below the folder of its first file, and never
 * through a symbolic link. The contents are kept, because each compilation parses them again. */
#include "runtime/compile/kernel_objects.h"
#include "support/fd_io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const off_t MAX_BYTES = (off_t)64 << 20;

static const ImportedText *find_text(const Imports *imports, const char *path)
{
    for (size_t i = 0; i < imports->texts.n; i++) {
        if (text_equal(imports->texts.items[i].path, path)) {
            return &imports->texts.items[i];
        }
    }
    return NULL;
}

/* Opens part after part, each in the folder before it; -1 and errno when one cannot be. */
static int open_below(Arena *arena, int folder, const char *path)
{
    int at = folder;
    while (at >= 0) {
        size_t n = strcspn(path, "/");
        bool last = !path[n];
        const char *part = arena_strndup(arena, path, n);
        int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
        int next = openat(at, part, flags);
        int why = errno;
        if (at != folder) {
            close(at);
        }
        errno = why;
        if (last) {
            return next;
        }
        at = next;
        path += n + 1;
    }
    return -1;
}

static const char *open_error(void)
{
    switch (errno) {
    case ELOOP: return "symbolic links are not followed";
    case ENOENT: return "there is no such file";
    case ENOTDIR: return "a part of the path is no folder";
    default: return strerror(errno);
    }
}

/* NULL and *why, or `bytes` of the file. */
static char *read_bytes(Arena *arena, int file, size_t bytes, const char **why)
{
    char *text = ARENA_ARRAY(arena, char, bytes + 1);
    if (!fd_read(file, text, bytes)) {
        *why = errno ? strerror(errno) : "the file became shorter while it was read";
        return NULL;
    }
    return text;
}

static const char *read_file(Arena *arena, int file, size_t *n, const char **why)
{
    struct stat facts;
    if (fstat(file, &facts) != 0) {
        *why = strerror(errno);
    } else if (!S_ISREG(facts.st_mode)) {
        *why = "it is no file";
    } else if (facts.st_size > MAX_BYTES) {
        *why = "a source has at most 64 MiB";
    } else {
        *n = (size_t)facts.st_size;
        return read_bytes(arena, file, *n, why);
    }
    return NULL;
}

static const char *kept_text(void *user, const char *path, size_t *n, const char **why)
{
    const ImportedText *text = find_text(user, path);
    *n = text ? text->n : 0;
    *why = "it was not there when the program was read";
    return text ? text->text : NULL;
}

static const char *read_text(void *user, const char *path, size_t *n, const char **why)
{
    Imports *imports = user;
    if (!imports->folder) {
        *why = "text that is in no file has no folder to import from";
        return NULL;
    }
    int folder = open(imports->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int file = folder < 0 ? -1 : open_below(imports->arena, folder, path);
    *why = file < 0 ? open_error() : NULL;
    if (folder >= 0) {
        close(folder);
    }
    if (file < 0) {
        return NULL;
    }
    const char *text = read_file(imports->arena, file, n, why);
    close(file);
    if (text) {
        bool here = text_equal(imports->folder, ".");
        ImportedText kept = {arena_strdup(imports->arena, path), text, *n, NULL};
        kept.file = here ? kept.path : arena_printf(imports->arena, "%s%s", imports->folder, path);
        ARENA_PUSH(imports->arena, &imports->texts, kept);
    }
    return text;
}

Importer imports_reader(Imports *imports)
{
    return (Importer){read_text, imports};
}

Importer imports_kept(Imports *imports)
{
    return (Importer){kept_text, imports};
}

Imports *imports_copy(Arena *arena, const Imports *imports)
{
    Imports *copy = ARENA_NEW(arena, Imports);
    copy->arena = arena;
    copy->folder = imports->folder ? arena_strdup(arena, imports->folder) : NULL;
    for (size_t i = 0; i < imports->texts.n; i++) {
        const ImportedText *from = &imports->texts.items[i];
        ImportedText text = {arena_strdup(arena, from->path),
                             arena_strndup(arena, from->text, from->n), from->n,
                             arena_strdup(arena, from->file)};
        ARENA_PUSH(arena, &copy->texts, text);
    }
    return copy;
}
