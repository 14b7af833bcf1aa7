/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "runtime/build_id.h"

#include <elf.h>
#include <link.h>
#include <string.h>

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

bool build_id(Text *out)
{
    Search search = {(uintptr_t)&build_id, out, false};
    dl_iterate_phdr(search_object, &search);
    return search.found;
}
