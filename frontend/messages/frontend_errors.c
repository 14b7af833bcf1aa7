/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of error codes and examples, and the functions by which the front end reports errors.
 * It also holds the "did you mean" search by edit distance and the hints for words of other
 * languages. */
#include "frontend/messages/frontend_errors.h"

#include "ir/schedule.h"
#include "ir/target/target.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

static const ErrorRow ROWS[] = {
#define ERROR(id, code, title, explanation) {code, title, explanation},
#include "frontend/messages/frontend_errors.def"
#define ERROR(id, code, title, explanation) {code, title, explanation},
#include "ir/ir_errors.def"
};

static const ErrorExample EXAMPLES[] = {
#define EXAMPLE(code, wrong, mended) {code, wrong, mended},
#include "frontend/messages/error_examples.def"
#define EXAMPLE(code, wrong, mended) {code, wrong, mended},
#include "frontend/messages/usage_examples.def"
};

/* A code that two rows have does not compile. */
static bool is_code(int number)
{
    switch (number) {
#define ERROR(id, code, title, explanation) case code:
#include "frontend/messages/frontend_errors.def"
#define ERROR(id, code, title, explanation) case code:
#include "ir/ir_errors.def"
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
    return diags->errors >= MAX_ERRORS;
}

Diag *front_error(Diags *diags, ErrorCode code, Span span, const char *format, ...)
{
    Text text = text_new(diags->arena);
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    if (diags->errors >= MAX_ERRORS) {
        diags->errors++;
        return ARENA_NEW(diags->arena, Diag);
    }
    return diag_error(diags, (int)code, span, "%s", text.data);
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
    return front_error(diags, ERR_UNSUPPORTED, span, "%s not supported yet", text.data);
}

const char *foreign_word_help(const char *word)
{
    static const struct {
        const char *word, *help;
    } HABITS[] = {
#define HABIT(word, help) {word, help},
#include "frontend/messages/foreign_keywords.def"
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
    return (Nearest){wanted, NULL, INT_MAX};
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
    int n = (int)strlen(nearest->wanted);
    int allowed = 3 * TEXT_EDIT;
    if (n <= 2) {
        allowed = TEXT_EDIT;
    } else if (n <= 5) {
        allowed = 2 * TEXT_EDIT;
    }
    bool is_similar =
        nearest->best && nearest->distance <= allowed && nearest->distance < TEXT_EDIT * n;
    return is_similar ? nearest->best : NULL;
}

typedef struct Habit {
    const char *word, *here;
} Habit;

static const Habit KEY_HABITS[] = {
#define KEY_HABIT(word, key) {word, key},
#include "frontend/messages/foreign_schedule_keys.def"
};

static const Habit TARGET_HABITS[] = {
#define TARGET_HABIT(word, target) {word, target},
#include "frontend/messages/foreign_target_names.def"
};

/* num-warps and NumWarps are num_warps. */
static bool same_word(const char *a, const char *b)
{
    for (;;) {
        a += strspn(a, "_-");
        b += strspn(b, "_-");
        if (!*a || tolower((unsigned char)*a) != tolower((unsigned char)*b)) {
            return *a == *b;
        }
        a++;
        b++;
    }
}

static const char *find_foreign(const Habit *habits, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) {
        if (same_word(word, habits[i].word)) {
            return habits[i].here;
        }
    }
    return NULL;
}

const char *nearest_schedule_key(const char *word)
{
    size_t n;
    const ScheduleKey *kinds = schedule_keys(&n);
    const char *habit = find_foreign(KEY_HABITS, sizeof KEY_HABITS / sizeof *KEY_HABITS, word);
    Nearest nearest = nearest_to(word);
    for (size_t i = 0; i < n; i++) {
        nearest_try(&nearest, kinds[i].key);
    }
    return habit ? habit : nearest_found(&nearest);
}

const char *nearest_target(const char *word)
{
    size_t n;
    const Target *rows = target_rows(&n);
    const char *habit =
        find_foreign(TARGET_HABITS, sizeof TARGET_HABITS / sizeof *TARGET_HABITS, word);
    Nearest nearest = nearest_to(word);
    for (size_t i = 0; i < n; i++) {
        nearest_try(&nearest, rows[i].name);
    }
    return habit ? habit : nearest_found(&nearest);
}

Span span_join(Span a, Span b)
{
    if (a.source != b.source) {
        return a;
    }
    return (Span){a.source, a.start < b.start ? a.start : b.start, a.end > b.end ? a.end : b.end};
}
