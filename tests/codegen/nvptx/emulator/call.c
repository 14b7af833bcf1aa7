/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of functions of the module: the body is parsed anew at each call, in a scope in which its
 * parameters name the caller's. A return is a branch to the end of that scope. */
#include "tests/codegen/nvptx/emulator/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char RETURN[] = "(return)"; /* no label of a text */

static void skip_until(Parser *parser, const char *ends)
{
    while (*parser->at && !strchr(ends, *parser->at)) {
        parser->line += *parser->at++ == '\n';
    }
}

void skip_function(Parser *parser)
{
    skip_until(parser, "{;");
    if (take(parser, ';')) {
        return; /* a declaration */
    }
    for (int depth = 0; *parser->at; parser->at++) {
        parser->line += *parser->at == '\n';
        depth += (*parser->at == '{') - (*parser->at == '}');
        if (depth == 0) {
            parser->at++;
            return;
        }
    }
}

/* Behind the `.func`: notes where it begins, if it has a body, and goes past it. */
static void note_function(Parser *parser)
{
    Function made = {.at = parser->at, .line = parser->line};
    if (take(parser, '(')) {
        skip_until(parser, ")");
        expect(parser, ')');
    }
    read_name(parser, made.name);
    skip_until(parser, "{;");
    if (*parser->at == '{') {
        GROW(parser->functions, parser->n_functions);
        parser->functions[parser->n_functions++] = made;
    }
    skip_function(parser);
}

void find_functions(Parser *parser)
{
    const char *begin = parser->at;
    int line = parser->line;
    while (*parser->at) {
        if (strncmp(parser->at, ".func", 5) == 0) {
            parser->at += 5;
            note_function(parser);
        } else {
            skip_until(parser, "\n");
            parser->line += *parser->at == '\n';
            parser->at += *parser->at == '\n';
        }
    }
    parser->at = begin;
    parser->line = line;
}

/* Names in parentheses, as a call has them. */
static int read_names(Parser *parser, char (*names)[NAME])
{
    int n = 0;
    expect(parser, '(');
    while (!take(parser, ')')) {
        if (n == MAX_ARGS || !read_name(parser, names[n++])) {
            parse_fail(parser, "arguments that are not emulated", "call");
        }
        take(parser, ',');
    }
    return n;
}

/* `(.param .b32 a, .param .b32 b)` of a function: names of the caller's registers. */
static void bind(Parser *parser, const Register *given, int n)
{
    char word[NAME] = "";
    expect(parser, '(');
    for (int i = 0; i < n; i++) {
        while (*word = 0, read_name(parser, word) && *word == '.') {
            if (strcmp(word, ".param") != 0 && !type_bits(word + 1)) {
                parse_fail(parser, "a parameter that is not emulated", word);
            }
        }
        Register made = given[i];
        made.scope = parser->scopes[parser->depth];
        memcpy(made.name, word, sizeof word);
        add_name(parser, &made);
        take(parser, ',');
    }
    expect(parser, ')');
}

static Register argument(const Parser *parser, const char *name)
{
    for (int i = parser->n_registers - 1; i >= 0; i--) {
        const Register *found = &parser->registers[i];
        if (found->is_param && strcmp(found->name, name) == 0) {
            return *found;
        }
    }
    parse_fail(parser, "no such argument", name);
}

static const Function *function_named(const Parser *parser, const char *name)
{
    for (int i = 0; i < parser->n_functions; i++) {
        if (strcmp(parser->functions[i].name, name) == 0) {
            return &parser->functions[i];
        }
    }
    parse_fail(parser, "no such function", name);
}

static void parse_body(Parser *parser)
{
    int depth = parser->depth;
    expect(parser, '{');
    do {
        skip_space(parser);
        if (parser->depth == depth && *parser->at == '}') {
            add_label(parser, RETURN);
        }
    } while (parse_statement(parser) && parser->depth >= depth);
}

void parse_call(Parser *parser)
{
    char names[2 * MAX_ARGS][NAME], name[NAME];
    Register given[2 * MAX_ARGS];
    int n_results = 0, n = 0;
    skip_space(parser);
    if (*parser->at == '(') {
        n_results = read_names(parser, names);
        expect(parser, ',');
    }
    read_name(parser, name);
    if (take(parser, ',')) {
        n = read_names(parser, names + n_results);
    }
    expect(parser, ';');
    const Function *function = function_named(parser, name);
    for (int i = 0; i < n_results + n; i++) {
        given[i] = argument(parser, names[i]);
    }
    const char *at = parser->at;
    int line = parser->line;
    parser->at = function->at;
    parser->line = function->line;
    open_scope(parser);
    parser->calls++;
    if (n_results) {
        bind(parser, given, n_results);
    }
    read_name(parser, name);
    bind(parser, given + n_results, n);
    parse_body(parser);
    parser->calls--;
    parser->at = at;
    parser->line = line;
}

bool is_return(const Parser *parser, const char *opcode)
{
    return parser->calls > 0 && strcmp(opcode, "ret") == 0;
}

/* The branch for which the next instruction stands. */
void leave_call(Parser *parser)
{
    add_fixup(parser, RETURN);
}
