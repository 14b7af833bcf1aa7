/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the build id of the shared library that contains an address, and the path of a file in the
 * same folder. The compile cache and the compile worker use the build id as the version of the
 * compiler. */
#define _GNU_SOURCE
#include "support/shared_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Search {
    uintptr_t inside; /* an address of the object that is wanted */
    Text *out;
    bool found;
} Search;

static bool holds(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && address >= begin && address - begin < part->p_memsz) {
            return true;
        }
    }
    return false;
}

static size_t padded(size_t n)
{
    return (n + 3) / 4 * 4;
}

static void search_notes(Search *search, const char *at, size_t n)
{
    ElfW(Nhdr) note;
    while (n >= sizeof note) {
        memcpy(&note, at, sizeof note);
        size_t name = padded(note.n_namesz), bytes = padded(note.n_descsz);
        if (name > n - sizeof note || bytes > n - sizeof note - name) {
            return;
        }
        const char *id = at + sizeof note + name;
        bool gnu = note.n_namesz == 4 && memcmp(at + sizeof note, "GNU", 4) == 0;
        if (gnu && note.n_type == NT_GNU_BUILD_ID) {
            for (size_t i = 0; i < note.n_descsz; i++) {
                text_printf(search->out, "%02x", (unsigned char)id[i]);
            }
            search->found = true;
            return;
        }
        at += sizeof note + name + bytes;
        n -= sizeof note + name + bytes;
    }
}

static int search_object(struct dl_phdr_info *object, size_t size, void *user)
{
    Search *search = user;
    (void)size;
    if (!holds(object, search->inside)) {
        return 0;
    }
    for (int i = 0; i < object->dlpi_phnum && !search->found; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_NOTE) {
            search_notes(search, (const char *)(object->dlpi_addr + part->p_vaddr), part->p_memsz);
        }
    }
    return 1;
}

bool object_build(const void *inside, Text *out)
{
    Search search = {(uintptr_t)inside, out, false};
    dl_iterate_phdr(search_object, &search);
    return search.found;
}

const char *object_sibling_path(Arena *arena, const void *inside, const char *file)
{
    Dl_info info;
    struct link_map *map = NULL;
    char folder[PATH_MAX], real[PATH_MAX];
    if (!dladdr1(inside, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname) {
        return NULL;
    }
    if (map && dlinfo(map, RTLD_DI_ORIGIN, folder) == 0) {
        const char *path = arena_printf(arena, "%s/%s", folder, file);
        if (access(path, R_OK) == 0) {
            return path;
        }
    }
    char *slash = realpath(info.dli_fname, real) ? strrchr(real, '/') : NULL;
    if (!slash) {
        return NULL;
    }
    const char *path = arena_printf(arena, "%.*s/%s", (int)(slash - real), real, file);
    return access(path, R_OK) == 0 ? path : NULL;
}
