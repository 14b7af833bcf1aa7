/* SPDX-License-Identifier: Apache-2.0 */
/* The cache's folder: the check of its owner, and its files, each written under another name and
 * then renamed. */
#include "runtime/cache/cache_folder.h"

#include "support/fd_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOUCH_SECONDS = 3600 };

/* Only its owner may change what is in it. */
static bool is_ours(const struct stat *info)
{
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The folder, and those above it as far as they are missing. */
static bool make_folder(const char *path)
{
    char part[4096];
    size_t n = strlen(path);
    if (n >= sizeof part) {
        return false;
    }
    memcpy(part, path, n + 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, S_IRWXU);
        *slash = '/';
    }
    return mkdir(part, S_IRWXU) == 0 || errno == EEXIST;
}

bool folder_open(Cache *cache, bool make)
{
    struct stat info;
    if (cache->why || cache->at >= 0) {
        return cache->why == NULL;
    }
    if (make && !make_folder(cache->folder)) {
        cache->why = "its folder cannot be made";
        return false;
    }
    cache->at = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cache->at < 0) {
        cache->why = errno == ENOENT && !make ? NULL : "its folder cannot be opened";
        return false;
    }
    if (fstat(cache->at, &info) != 0 || !is_ours(&info)) {
        close(cache->at);
        cache->at = -1;
        cache->why = "others own its folder, or may write to it";
        return false;
    }
    return true;
}

static bool reserve(Cache *cache, size_t n)
{
    if (n <= cache->capacity) {
        return true;
    }
    if (cache->buffer) {
        cache->allocator.release(cache->allocator.user, cache->buffer);
    }
    cache->buffer = cache->allocator.alloc(cache->allocator.user, n);
    cache->capacity = cache->buffer ? n : 0;
    return cache->buffer != NULL;
}

bool folder_read(Cache *cache, const char *name, bool is_use, EntryFile *out)
{
    struct stat info;
    int file = openat(cache->at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return false;
    }
    bool good = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && is_ours(&info) &&
                info.st_size <= MAX_ENTRY && reserve(cache, (size_t)info.st_size);
    if (good) {
        *out = (EntryFile){cache->buffer, (size_t)info.st_size};
        good = fd_read(file, cache->buffer, out->n);
        if (is_use) {
            /* An entry that is used stays longest. The time has a resolution of an hour, so that
             * most hits write nothing. */
            if (time(NULL) - info.st_mtime > TOUCH_SECONDS) {
                (void)!futimens(file, NULL);
            }
        }
    }
    close(file);
    return good;
}

bool folder_write(Cache *cache, const char *name, const char *bytes, size_t n)
{
    char temporary[96];
    snprintf(temporary, sizeof temporary, "tmp-%ld-%u-%.8s", (long)getpid(), cache->temporaries++,
             name);
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int file = openat(cache->at, temporary, flags, S_IRUSR | S_IWUSR);
    if (file < 0 && errno == EEXIST) { /* of a process that had our number, and was killed */
        unlinkat(cache->at, temporary, 0);
        file = openat(cache->at, temporary, flags, S_IRUSR | S_IWUSR);
    }
    if (file < 0) {
        return false;
    }
    bool good = fd_write(file, bytes, n);
    good = close(file) == 0 && good;
    good = good && renameat(cache->at, temporary, cache->at, name) == 0;
    if (!good) {
        unlinkat(cache->at, temporary, 0);
    }
    return good;
}

bool folder_remove(Cache *cache, const char *name)
{
    return unlinkat(cache->at, name, 0) == 0 || unlinkat(cache->at, name, AT_REMOVEDIR) == 0;
}
