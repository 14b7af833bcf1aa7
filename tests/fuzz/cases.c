/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the header of a fuzz case: lines `#: key value…` before a program. */
#include "tests/fuzz/fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void outcome_set(Outcome *outcome, const char *status, const char *way, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    outcome->status = status;
    outcome->way = way;
    vsnprintf(outcome->message, sizeof outcome->message, format, args);
    va_end(args);
}

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " ");
    size_t n = strcspn(word, " ");
    *rest = word + n + (word[n] != 0);
    word[n] = 0;
    return word;
}

/* "O3 skip hoist skip peel line tile M 4, N 8": a line lasts until the next semicolon. */
static void read_way(Way *way, char *rest)
{
    *way = (Way){.text = strdup(rest)};
    for (char *word = next_word(&rest); *word; word = next_word(&rest)) {
        if (strcmp(word, "O0") == 0) {
            way->optimize = -1;
        } else if (word[0] == 'O') {
            way->optimize = atoi(word + 1);
        } else if (strcmp(word, "passes") == 0) {
            way->passes = next_word(&rest);
        } else if (strcmp(word, "code") == 0) {
            way->code = next_word(&rest);
            way->kind = next_word(&rest);
        } else if (strcmp(word, "stop") == 0) {
            way->stop = next_word(&rest);
        } else if (strcmp(word, "skip") == 0 && way->n_skip < MAX_WORDS) {
            way->skip[way->n_skip++] = next_word(&rest);
        } else if (strcmp(word, "line") == 0 && way->n_lines < MAX_WORDS) {
            size_t n = strcspn(rest, ";");
            char *end = rest + n;
            way->lines[way->n_lines++] = rest;
            rest = end + (*end != 0);
            *end = 0;
        }
    }
}

static bool read_data(Case *c, char *rest)
{
    Data *data = &c->data[c->n_data++];
    data->param = next_word(&rest);
    data->kind = next_word(&rest);
    data->most = atoll(rest);
    return *data->kind != 0;
}

static bool read_pair(TesseraPair *pair, char *value)
{
    char *equals = strchr(value, '=');
    if (!equals) {
        return false;
    }
    *equals = 0;
    *pair = (TesseraPair){value, equals + 1};
    return true;
}

static bool read_head(Case *c, char *line)
{
    char *rest = line, *key = next_word(&rest);
    TesseraPair pair;
    if (strcmp(key, "size") == 0 && c->n_sizes < MAX_NAMES && read_pair(&pair, rest)) {
        c->sizes[c->n_sizes++] = (TesseraSize){pair.name, atoll(pair.value)};
    } else if (strcmp(key, "set") == 0 && c->n_bindings < MAX_NAMES) {
        return read_pair(&c->bindings[c->n_bindings++], rest);
    } else if (strcmp(key, "scalar") == 0 && c->n_scalars < MAX_NAMES) {
        return read_pair(&c->scalars[c->n_scalars++], rest);
    } else if (strcmp(key, "data") == 0 && c->n_data < MAX_NAMES) {
        return read_data(c, rest);
    } else if (strcmp(key, "run") == 0 && c->n_ways < MAX_RUNS) {
        read_way(&c->ways[c->n_ways++], rest);
    } else if (strcmp(key, "seed") == 0) {
        c->seed = strtoull(rest, NULL, 10);
    } else if (strcmp(key, "any") == 0) {
        c->any = true;
    } else {
        return false;
    }
    return true;
}

static Case *add_case(Case **cases, size_t *n)
{
    if ((*n & (*n - 1)) == 0) {
        *cases = realloc(*cases, (*n ? 2 * *n : 1) * sizeof **cases);
    }
    Case *c = &(*cases)[(*n)++];
    memset(c, 0, sizeof *c);
    return c;
}

size_t cases_read(char *text, Case **cases, const char **problem)
{
    size_t n = 0;
    Case *c = NULL;
    *cases = NULL;
    *problem = NULL;
    while (*text) {
        size_t length = strcspn(text, "\n");
        char *line = text, *next = text + length + (text[length] == '\n');
        if (strncmp(line, "#: ", 3) == 0) {
            line[length] = 0;
            if (strncmp(line, "#: program ", 11) == 0) {
                c = add_case(cases, &n);
                c->name = line + 11;
            } else if (!c || !read_head(c, line + 3)) {
                *problem = line;
                return n;
            }
            if (c) {
                c->text = next;
            }
        } else if (c) {
            c->n = (size_t)(next - c->text);
        }
        text = next;
    }
    return n;
}
