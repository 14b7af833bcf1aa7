/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the entry of a pin file that applies to a compilation. The file is looked for next to the
 * source unless another is named; a file that cannot be used causes a warning only. */
#include "runtime/compile/pin_lookup.h"

#include "runtime/compile/kernel_objects.h"
#include "runtime/context/compiler_context.h"
#include "support/fd_io.h"

#include "ir/ir_errors.h"
#include "ir/target/machine.h"
#include "runtime/pins/size_bucket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 64 << 20 };

/* ---- the file ---- */

/* NULL: there are to be none. */
static const char *file_of(Compilation *c, bool *named)
{
    const char *given = c->options.pins ? c->options.pins : c->work->context->compiler->pins;
    *named = given != NULL;
    if (given) {
        return *given && !text_equal(given, "off") ? given : NULL;
    }
    return c->imports && c->imports->folder ? pins_path_for(&c->work->arena, c->name) : NULL;
}

bool pins_may_be(ErrorBoundary *work, TesseraProgram *program, const TesseraOptions *options)
{
    bool named;
    Compilation c = {
        .work = work, .name = program->name, .imports = &program->imports, .options = *options};
    const char *path = file_of(&c, &named);
    return path && access(path, F_OK) == 0;
}

/* NULL, with errno, or 0 where it is no file. */
static char *read_file(Arena *arena, const char *path, size_t *n)
{
    struct stat info;
    char *text = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return NULL;
    }
    bool fits = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= MAX_FILE;
    errno = 0;
    if (fits) {
        *n = (size_t)info.st_size;
        text = arena_alloc(arena, *n + 1);
        text = fd_read(file, text, *n) ? text : NULL;
    }
    close(file);
    return text;
}

static bool parse(Compilation *c)
{
    PinLookup *pinned = &c->pinned;
    Diags *diags = &c->work->diags, quiet;
    Arena *arena = &c->work->arena;
    int source = diags_add_source(diags, pinned->file, pinned->text, pinned->n);
    if (pinned->named) {
        return pins_read(diags, arena, source, &pinned->pins);
    }
    diags_init(&quiet, arena);
    quiet.bug_guard = diags->bug_guard;
    for (size_t i = 0; i < diags->sources.n; i++) { /* places are the same in both */
        ARENA_PUSH(arena, &quiet.sources, diags->sources.items[i]);
    }
    if (!pins_read(&quiet, arena, source, &pinned->pins)) {
        pinned->pins.n = 0;
        /* A mistake in a pin file that was named is an error, in one that lies next to the
         * source a warning. */
        const Diag *first = &quiet.list.items[0];
        Diag *diag = diag_warning(diags, ERR_PINS_UNUSED, first->span, "%s is not used: %s",
                                  c->pinned.file, first->message);
        if (first->help) {
            diag_help(diags, diag, "%s", first->help);
        }
    }
    return true;
}

bool pins_load(Compilation *c)
{
    PinLookup *pinned = &c->pinned;
    pinned->text = pinned->forbidden ? NULL : pinned->text;
    pinned->wanted = pinned->text != NULL;
    if (pinned->wanted || pinned->forbidden || !c->target) {
        return true;
    }
    const char *path = file_of(c, &pinned->named);
    if (!path) {
        return true;
    }
    errno = 0;
    pinned->text = read_file(&c->work->arena, path, &pinned->n);
    if (pinned->text) {
        pinned->file = path;
        pinned->wanted = true;
        return true;
    }
    if (pinned->named) {
        diag_failure_at(&c->work->diags, DIAG_ENVIRONMENT, ERR_CANNOT_READ, SPAN_NONE,
                        "cannot read the pins %s: %s", path, errno ? strerror(errno) : "no file");
    } else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) {
        diag_warning(&c->work->diags, ERR_PINS_UNUSED, SPAN_NONE, "%s is not used: %s", path,
                     errno ? strerror(errno) : "it is no file");
    }
    return !pinned->named;
}

PinLookup pins_copy(const PinLookup *pinned)
{
    return (PinLookup){.forbidden = pinned->forbidden || !pinned->text,
                       .bucket = pinned->bucket,
                       .file = pinned->file,
                       .text = pinned->text,
                       .n = pinned->n,
                       .named = pinned->named};
}

/* ---- which entry ---- */

/* Of the same sizes, whatever their order and the space between. */
static bool same_buckets(Arena *arena, const char *a, const char *b)
{
    size_t left = 0, right = 0;
    const char *name, *other;
    Bucket one, two;
    for (const char *at = a; bucket_read(arena, &at, &name, &one) && ++left;) {
        bool found = false;
        right = 0;
        for (const char *to = b; bucket_read(arena, &to, &other, &two) && ++right;) {
            found = found || (text_equal(name, other) && bucket_same(&one, &two));
        }
        if (!found) {
            return false;
        }
    }
    return left == right && (left > 0 || (!*a && !*b));
}

/* For this kernel's name, types and device? What it was, and for which sizes, is not looked at. */
static bool concerns(Compilation *c, const Pin *pin, const char *arch)
{
    const char *device = c->options.device;
    return text_equal(pin->kernel, c->func->name) && text_equal(pin->arch, arch) &&
           text_equal(pin->types, c->pinned.identity.types) &&
           (!device || text_equal(pin->device, device));
}

static bool is_usual(const Compilation *c, const Pin *pin)
{
    const char *match = c->target->machine->match;
    return *match && strstr(pin->device, match);
}

typedef struct Choice {
    const Pin *pin;           /* NULL: none */
    const Pin *changed, *old; /* would be, but for the kernel or the version */
    bool later;
} Choice;

/* `bucket` NULL: sizes are not known yet. Where it is not said which device it will be, the part
 * that stands for the target comes before others. */
static Choice choose(Compilation *c, const char *bucket)
{
    Choice choice = {0};
    const KernelFingerprint *is = &c->pinned.identity;
    const char *arch = architecture_of(c);
    for (size_t i = 0; i < c->pinned.pins.n; i++) {
        const Pin *pin = &c->pinned.pins.items[i];
        if (!concerns(c, pin, arch) ||
            (bucket && !same_buckets(&c->work->arena, pin->bucket, bucket))) {
            continue;
        }
        if (!text_equal(pin->digest, is->digest)) {
            choice.changed = text_equal(pin->digest, is->plain) ? choice.changed : pin;
        } else if (!text_equal(pin->version, TESSERA_VERSION)) {
            choice.old = pin;
        } else if (!bucket && *pin->bucket) {
            choice.later = true;
        } else if (!choice.pin || (is_usual(c, pin) && !is_usual(c, choice.pin))) {
            choice.pin = pin;
        }
    }
    return choice;
}

/* One that should be for this kernel, and is not any more. */
static void warn_stale(Compilation *c, const Choice *choice)
{
    Diags *diags = &c->work->diags;
    const Pin *pin = choice->changed ? choice->changed : choice->old;
    if (!pin || choice->pin || choice->later ||
        diag_is_reported(diags, ERR_PINS_UNUSED, pin->span)) {
        return;
    }
    Diag *diag =
        choice->changed
            ? diag_warning(diags, ERR_PINS_UNUSED, pin->span,
                           "this pin is not used: %s has changed since it was measured",
                           c->func->name)
            : diag_warning(diags, ERR_PINS_UNUSED, pin->span,
                           "this pin is not used: it was measured with tessera %s, and this is %s",
                           pin->version, TESSERA_VERSION);
    diag_help(diags, diag, "measure again with `tessera tune`, then `tessera tune pin`");
    if (choice->changed) {
        diag_note(diags, diag, "its digest was %s, and is %s", pin->digest,
                  c->pinned.identity.digest);
    }
}

static bool give_lines(Compilation *c, const Pin *pin)
{
    const Diags *diags = &c->work->diags;
    for (size_t i = 0; i < pin->lines.n; i++) {
        const PinLine *line = &pin->lines.items[i];
        const char *slash = strrchr(c->pinned.file, '/');
        const char *where =
            arena_printf(&c->work->arena, "pinned, %s:%d", slash ? slash + 1 : c->pinned.file,
                         diag_source_loc(diags, line->span).line);
        if (!line_pin(c->func, line->text, line->span, where)) {
            return false;
        }
    }
    return true;
}

bool pins_apply(Compilation *c)
{
    PinLookup *pinned = &c->pinned;
    const int64_t *sizes = sizes_by_id(c->func, c->options.sizes, c->options.n_sizes);
    if (pinned->text && !parse(c)) {
        return false;
    }
    if (pinned->pins.n == 0) {
        return true;
    }
    const char *bucket = pinned->bucket ? pinned->bucket : buckets_of(c, sizes);
    Choice choice = choose(c, bucket);
    pinned->taken = choice.pin;
    pinned->later = choice.later && !choice.pin;
    if (pinned->later) {
        diag_remark(&c->work->diags, SPAN_NONE,
                    "%s has schedules of %s for some sizes: give them, or launches will",
                    pinned->file, c->func->name);
    }
    warn_stale(c, &choice);
    return !choice.pin || give_lines(c, choice.pin);
}

const char *pins_later(Compilation *c, const int64_t *sizes)
{
    const char *bucket = c->pinned.later ? buckets_of(c, sizes) : NULL;
    return bucket && choose(c, bucket).pin ? bucket : NULL;
}

const char *pins_bucket(Compilation *c, size_t n)
{
    const Pins *pins = &c->pinned.pins;
    for (size_t i = 0; c->pinned.later && i < pins->n; i++) {
        const Pin *pin = &pins->items[i];
        if (*pin->bucket && choose(c, pin->bucket).pin == pin && n-- == 0) {
            return pin->bucket;
        }
    }
    return NULL;
}
