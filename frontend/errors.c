/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/errors.h"

#include <string.h>

static const ErrorRow ROWS[] = {
#define ERROR(id, code, title, explanation) {code, title, explanation},
#include "frontend/errors.def"
#define ERROR(id, code, title, explanation) {code, title, explanation},
#include "ir/errors.def"
};

static const ErrorExample EXAMPLES[] = {
#define EXAMPLE(code, wrong, mended) {code, wrong, mended},
#include "frontend/error_examples.def"
#define EXAMPLE(code, wrong, mended) {code, wrong, mended},
#include "frontend/usage_examples.def"
};

/* A code that two rows have does not compile. */
static bool is_code(int number)
{
    switch (number) {
#define ERROR(id, code, title, explanation) case code:
#include "frontend/errors.def"
#define ERROR(id, code, title, explanation) case code:
#include "ir/errors.def"
        return true;
    default: return false;
    }
}

const ErrorRow *error_row(size_t index)
{
    return index < sizeof ROWS / sizeof *ROWS ? &ROWS[index] : NULL;
}

const ErrorExample *error_example(int code)
{
    for (size_t i = 0; is_code(code) && i < sizeof EXAMPLES / sizeof *EXAMPLES; i++) {
        if (EXAMPLES[i].code == code) {
            return &EXAMPLES[i];
        }
    }
    return NULL;
}

bool errors_are_enough(const Diags *diags)
{
    return diags->errors >= MOST_ERRORS;
}

static Diag *report(Diags *diags, ErrorCode code, Span span, const char *message)
{
    if (diags->errors >= MOST_ERRORS) {
        diags->errors++;
        return ARENA_NEW(diags->arena, Diag);
    }
    return diag_error(diags, (int)code, span, "%s", message);
}

Diag *front_error(Diags *diags, ErrorCode code, Span span, const char *format, ...)
{
    Text text = text_new(diags->arena);
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    return report(diags, code, span, text.data);
}

Diag *front_warning(Diags *diags, ErrorCode code, Span span, const char *format, ...)
{
    Text text = text_new(diags->arena);
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    return errors_are_enough(diags) ? ARENA_NEW(diags->arena, Diag)
                                    : diag_warning(diags, (int)code, span, "%s", text.data);
}

Diag *front_unsupported(Diags *diags, Span span, const char *format, ...)
{
    Text text = text_new(diags->arena);
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    text_add(&text, " not supported yet");
    return report(diags, ERR_UNSUPPORTED, span, text.data);
}

const char *habit_help(const char *word)
{
    static const struct {
        const char *word, *help;
    } HABITS[] = {
#define HABIT(word, help) {word, help},
#include "frontend/habits.def"
#undef HABIT
    };
    for (size_t i = 0; i < sizeof HABITS / sizeof *HABITS; i++) {
        if (strcmp(HABITS[i].word, word) == 0) {
            return HABITS[i].help;
        }
    }
    return NULL;
}

Nearest nearest_to(const char *wanted)
{
    return (Nearest){wanted, NULL, 1 << 20};
}

void nearest_try(Nearest *nearest, const char *candidate)
{
    int distance = text_distance(nearest->wanted, candidate);
    /* Of two that are as near, the one of which something is missing. */
    bool begins = strncmp(candidate, nearest->wanted, strlen(nearest->wanted)) == 0;
    if (distance < nearest->distance || (distance == nearest->distance && begins)) {
        nearest->distance = distance;
        nearest->best = candidate;
    }
}

const char *nearest_found(const Nearest *nearest)
{
    size_t n = strlen(nearest->wanted);
    int allowed = n <= 2 ? 1 : n <= 5 ? 2 : 3;
    bool near = nearest->best && nearest->distance <= allowed && (size_t)nearest->distance < n;
    return near ? nearest->best : NULL;
}

Span span_join(Span a, Span b)
{
    if (a.source != b.source) {
        return a;
    }
    return (Span){a.source, a.start < b.start ? a.start : b.start, a.end > b.end ? a.end : b.end};
}
