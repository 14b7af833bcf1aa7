/* SPDX-License-Identifier: Apache-2.0 */
/* Imports: `import "norms.tile"` and `import random` make the functions of another file visible. A
 * path is relative to the folder of the importing file and may only lead into that folder and
 * below; each file is read once. */
#include "frontend/messages/frontend_errors.h"
#include "frontend/stdlib_sources.h"
#include "frontend/syntax/ast.h"

#include <string.h>

enum { MAX_FILES = 256, MAX_PATH = 1024 };

/* ---- paths ---- */

/* Not empty, `.` or `..`: a name in a folder. */
static bool is_plain_part(const char *part, size_t n)
{
    bool dots = (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.');
    return n > 0 && !dots && !memchr(part, '\\', n) && !memchr(part, ':', n);
}

static bool is_below(const char *path)
{
    while (true) {
        size_t n = strcspn(path, "/");
        if (!is_plain_part(path, n)) {
            return false;
        }
        if (!path[n]) {
            return true;
        }
        path += n + 1;
    }
}

/* In the folder of `from`. */
static const char *joined(Arena *arena, const char *from, const char *path)
{
    const char *slash = from ? strrchr(from, '/') : NULL;
    return slash ? arena_printf(arena, "%.*s%s", (int)(slash + 1 - from), from, path)
                 : arena_strdup(arena, path);
}

/* ---- one import ---- */

static Diag *cannot_import(Module *module, const ImportDecl *import, const char *why)
{
    return front_error(module->diags, ERR_IMPORT, import->span, "cannot import this: %s", why);
}

static void check_library(Module *module, const ImportDecl *import)
{
    Nearest nearest = nearest_to(import->path);
    for (size_t i = 0; i < stdlib_count; i++) {
        size_t n = strlen(stdlib_sources[i].name); /* <stdlib/math.tile> */
        const char *name =
            arena_printf(module->arena, "%.*s", (int)n - 14, stdlib_sources[i].name + 8);
        if (text_equal(name, import->path)) {
            return;
        }
        nearest_try(&nearest, name);
    }
    Diag *diag = cannot_import(module, import, "the standard library has no such module");
    if (nearest_found(&nearest)) {
        diag_help(module->diags, diag, "did you mean `import %s`?", nearest_found(&nearest));
        diag_fix(module->diags, diag, import->span, "%s", nearest_found(&nearest));
    } else {
        diag_help(module->diags, diag, "write the path of a file in quotes: `import \"%s.tile\"`",
                  import->path);
    }
}

static Module *known_module(const ModuleSet *set, const char *path)
{
    for (size_t i = 0; i < set->modules.n; i++) {
        if (text_equal(set->modules.items[i]->path, path)) {
            return set->modules.items[i];
        }
    }
    return NULL;
}

static Module *read_module(Module *module, const ImportDecl *import, const char *path)
{
    ModuleSet *set = module->set;
    const char *why = "text that is in no file has no folder to import from";
    size_t n = 0;
    const char *text =
        set->importer ? set->importer->read(set->importer->user, path, &n, &why) : NULL;
    if (!text) {
        cannot_import(module, import, why);
        return NULL;
    }
    Module *read = ARENA_NEW(module->arena, Module);
    *read = (Module){.arena = module->arena,
                     .diags = module->diags,
                     .source = diags_add_source(module->diags, path, text, n),
                     .path = path,
                     .set = set,
                     .standard = module->standard};
    ARENA_PUSH(module->arena, &set->modules, read);
    parse_module(read);
    check_twice(read);
    load_imports(read);
    return read;
}

static Module *import_file(Module *module, const ImportDecl *import)
{
    const char *path = joined(module->arena, module->path, import->path);
    if (strlen(import->path) > MAX_PATH || strlen(path) > MAX_PATH || !is_below(import->path)) {
        Diag *diag = cannot_import(module, import, "the path leads out of the importing folder");
        diag_help(module->diags, diag, "name a file next to this one, or in a folder below");
        return NULL;
    }
    Module *known = known_module(module->set, path);
    if (!known && module->set->modules.n >= MAX_FILES) {
        cannot_import(module, import, "a program has at most 256 files");
        return NULL;
    }
    return known ? known : read_module(module, import, path);
}

/* ---- all of a file ---- */

static void check_pair(Module *module, const ImportDecl *a, const ImportDecl *b)
{
    if (!a->module || !b->module || a->module == b->module) {
        return;
    }
    for (size_t i = 0; i < a->module->fns.n; i++) {
        for (size_t k = 0; k < b->module->fns.n; k++) {
            if (text_equal(a->module->fns.items[i]->name, b->module->fns.items[k]->name)) {
                Diag *diag = front_error(module->diags, ERR_DUPLICATE, b->span,
                                         "`%s` comes from two imported files",
                                         a->module->fns.items[i]->name);
                diag_label(module->diags, diag, a->span, "this has it too");
                return;
            }
        }
    }
}

void load_imports(Module *module)
{
    for (size_t i = 0; i < module->imports.n; i++) {
        ImportDecl *import = &module->imports.items[i];
        if (import->is_file) {
            import->module = import_file(module, import);
        } else {
            check_library(module, import);
        }
        for (size_t k = 0; k < i; k++) {
            check_pair(module, &module->imports.items[k], import);
        }
    }
}
