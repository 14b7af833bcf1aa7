/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the text of a module: kernels, their parameters, registers and labels. */
#include "tests/codegen/nvptx/emulator/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void parse_fail(const Parser *parser, const char *what, const char *name)
{
    fprintf(stderr, "emulator: %s:%d: %s: %s\n", parser->path, parser->line, name, what);
    exit(2);
}

static void skip_line(Parser *parser)
{
    while (*parser->at && *parser->at != '\n') {
        parser->at++;
    }
}

void skip_space(Parser *parser)
{
    for (;;) {
        if (*parser->at == '\n') {
            parser->line++;
            parser->at++;
        } else if (isspace((unsigned char)*parser->at)) {
            parser->at++;
        } else if (parser->at[0] == '/' && parser->at[1] == '/') {
            skip_line(parser);
        } else {
            return;
        }
    }
}

bool take(Parser *parser, char c)
{
    skip_space(parser);
    if (*parser->at != c) {
        return false;
    }
    parser->at++;
    return true;
}

void expect(Parser *parser, char c)
{
    if (!take(parser, c)) {
        parse_fail(parser, "is missing", (char[]){c, 0});
    }
}

/* With what opcodes and special registers are made of. */
bool read_name(Parser *parser, char *name)
{
    skip_space(parser);
    int n = 0;
    while (isalnum((unsigned char)*parser->at) || (*parser->at && strchr("_$%.:", *parser->at))) {
        if (*parser->at == ':' && parser->at[1] != ':' && (n == 0 || name[n - 1] != ':')) {
            break; /* of a label */
        }
        if (n == NAME - 1) {
            parse_fail(parser, "is too long", "a name");
        }
        name[n++] = *parser->at++;
    }
    name[n] = 0;
    return n > 0;
}

static long read_number(Parser *parser)
{
    skip_space(parser);
    char *end;
    long number = strtol(parser->at, &end, 0);
    if (end == parser->at) {
        parse_fail(parser, "a number is missing", "declaration");
    }
    parser->at = end;
    return number;
}

/* ---- rows ---- */

int new_row(Parser *parser, char type)
{
    Kernel *kernel = parser->kernel;
    int words = type == 'q' ? 2 * LANES : type == 'p' ? 2 : LANES;
    int at = kernel->n_rows;
    kernel->n_rows += words;
    if (kernel->n_rows > parser->room) {
        parser->room = 2 * kernel->n_rows + 1024;
        kernel->rows = realloc(kernel->rows, sizeof *kernel->rows * (size_t)parser->room);
    }
    for (int i = at; i < kernel->n_rows; i++) {
        kernel->rows[i] = poison_word();
    }
    return at;
}

int number_row(Parser *parser, char type, uint64_t bits)
{
    for (int i = 0; i < parser->n_numbers; i++) {
        if (parser->numbers[i].type == type && parser->numbers[i].bits == bits) {
            return parser->numbers[i].at;
        }
    }
    int at = new_row(parser, type);
    uint32_t *row = parser->kernel->rows + at;
    for (int lane = 0; lane < LANES; lane++) {
        if (type == 'q') {
            memcpy(row + (ptrdiff_t)2 * lane, &bits, sizeof bits);
        } else if (type == 'u') {
            row[lane] = (uint32_t)bits;
        } else {
            row[0] = bits ? ALL_LANES : 0;
        }
    }
    GROW(parser->numbers, parser->n_numbers);
    parser->numbers[parser->n_numbers++] = (Number){.type = type, .bits = bits, .at = at};
    return at;
}

void add_name(Parser *parser, const Register *made)
{
    GROW(parser->registers, parser->n_registers);
    parser->registers[parser->n_registers++] = *made;
}

static void add_register(Parser *parser, const char *name, char type, bool is_param)
{
    Register made = {
        .type = type, .scope = parser->scopes[parser->depth], .is_param = is_param};
    snprintf(made.name, sizeof made.name, "%s", name);
    if (take(parser, '<')) {
        made.count = (int)read_number(parser);
        expect(parser, '>');
    }
    made.at = new_row(parser, type);
    for (int i = 1; i < made.count; i++) {
        new_row(parser, type);
    }
    add_name(parser, &made);
}

static void parse_registers(Parser *parser, bool is_param)
{
    char word[NAME];
    read_name(parser, word);
    int bits = type_bits(word + 1);
    if (bits == 0 && strcmp(word, ".pred") != 0) {
        parse_fail(parser, "a type of registers that is not emulated", word);
    }
    char type = bits == 0 ? 'p' : bits == 64 ? 'q' : bits == 16 ? 'h' : 'u';
    do {
        read_name(parser, word);
        add_register(parser, word, type, is_param);
    } while (take(parser, ','));
    expect(parser, ';');
}

/* ---- scopes and labels ---- */

void open_scope(Parser *parser)
{
    if (++parser->depth == MAX_DEPTH) {
        parse_fail(parser, "too deep", "{");
    }
    parser->scopes[parser->depth] = ++parser->last_scope;
}

static int label_at(const Parser *parser, const char *name, int scope)
{
    for (int i = 0; i < parser->n_labels; i++) {
        if (parser->labels[i].scope == scope && strcmp(parser->labels[i].name, name) == 0) {
            return parser->labels[i].pc;
        }
    }
    return -1;
}

static void close_scope(Parser *parser)
{
    int scope = parser->scopes[parser->depth], left = 0;
    for (int i = 0; i < parser->n_fixups; i++) {
        Fixup *fixup = &parser->fixups[i];
        int pc = fixup->scope == scope ? label_at(parser, fixup->name, scope) : -1;
        if (pc >= 0) {
            parser->kernel->code[fixup->inst].target = pc;
            continue;
        }
        if (fixup->scope == scope) {
            if (parser->depth == 0) {
                parse_fail(parser, "no such label", fixup->name);
            }
            fixup->scope = parser->scopes[parser->depth - 1];
        }
        parser->fixups[left++] = *fixup;
    }
    parser->n_fixups = left;
    left = 0;
    for (int i = 0; i < parser->n_registers; i++) {
        if (parser->registers[i].scope != scope) {
            parser->registers[left++] = parser->registers[i];
        }
    }
    parser->n_registers = left;
    parser->depth--;
}

void add_label(Parser *parser, const char *name)
{
    GROW(parser->labels, parser->n_labels);
    Label *label = &parser->labels[parser->n_labels++];
    snprintf(label->name, sizeof label->name, "%s", name);
    label->scope = parser->scopes[parser->depth];
    label->pc = parser->kernel->n_code;
}

void add_fixup(Parser *parser, const char *name)
{
    GROW(parser->fixups, parser->n_fixups);
    Fixup *fixup = &parser->fixups[parser->n_fixups++];
    snprintf(fixup->name, sizeof fixup->name, "%s", name);
    fixup->scope = parser->scopes[parser->depth];
    fixup->inst = parser->kernel->n_code;
}

static bool parse_label(Parser *parser)
{
    const char *at = parser->at;
    char name[NAME];
    if (!read_name(parser, name) || *parser->at != ':') {
        parser->at = at;
        return false;
    }
    parser->at++;
    add_label(parser, name);
    return true;
}

/* ---- a kernel ---- */

static void parse_param(Parser *parser)
{
    Kernel *kernel = parser->kernel;
    char word[NAME], name[NAME] = "";
    int bytes = 0, align = 0;
    while (read_name(parser, word)) {
        if (strcmp(word, ".align") == 0) {
            int number = (int)read_number(parser);
            align = bytes == 8 ? align : number; /* of a pointer: of what is there */
        } else if (*word == '.' && type_bits(word + 1)) {
            bytes = type_bits(word + 1) / 8;
        } else if (*word != '.') {
            memcpy(name, word, sizeof name);
        }
    }
    if (take(parser, '[')) {
        bytes *= (int)read_number(parser);
        expect(parser, ']');
    }
    int i = kernel->n_params++;
    if (i == MAX_PARAMS || !bytes) {
        parse_fail(parser, "a parameter that is not emulated", name);
    }
    align = align ? align : bytes;
    kernel->params_size = (kernel->params_size + align - 1) / align * align;
    kernel->param_offset[i] = kernel->params_size;
    kernel->param_bytes[i] = bytes;
    kernel->params_size += bytes;
    memcpy(parser->param_names[i], name, sizeof name);
}

static void parse_head(Parser *parser)
{
    read_name(parser, parser->kernel->name);
    expect(parser, '(');
    while (!take(parser, ')')) {
        parse_param(parser);
        take(parser, ',');
    }
    char word[NAME];
    while (read_name(parser, word)) {
        int number = (int)read_number(parser);
        if (strcmp(word, ".reqntid") == 0) {
            parser->kernel->threads = number;
        }
    }
    expect(parser, '{');
}

/* What each thread has for itself: one array, at LOCAL_FIRST. */
static void parse_local(Parser *parser)
{
    char word[NAME];
    if (parser->calls) {
        parse_fail(parser, "memory that is not emulated", "a function's");
    }
    while (read_name(parser, word)) {
        if (strcmp(word, ".align") == 0) {
            read_number(parser);
        }
    }
    expect(parser, '[');
    parser->kernel->local_size = (int)read_number(parser);
    expect(parser, ']');
}

bool parse_statement(Parser *parser)
{
    char word[NAME];
    if (take(parser, '}')) {
        close_scope(parser);
        return parser->depth >= 0;
    }
    if (take(parser, '{')) {
        open_scope(parser);
    } else if (take(parser, ';')) {
        return true;
    } else if (*parser->at == '.') {
        read_name(parser, word);
        if (strcmp(word, ".reg") == 0) {
            parse_registers(parser, false);
        } else if (strcmp(word, ".param") == 0) {
            parse_registers(parser, true);
        } else if (strcmp(word, ".local") == 0) {
            parse_local(parser);
        } else if (strcmp(word, ".loc") == 0 || strcmp(word, ".file") == 0 ||
                   strcmp(word, ".pragma") == 0) {
            skip_line(parser);
        } else {
            parse_fail(parser, "is not emulated", word);
        }
    } else if (!parse_label(parser)) {
        parse_instruction(parser);
    }
    return true;
}

static void parse_kernel(Parser *parser, Kernel *kernel)
{
    parser->kernel = kernel;
    parser->room = parser->code_room = parser->depth = 0;
    parser->scopes[0] = ++parser->last_scope;
    parser->n_registers = parser->n_labels = parser->n_fixups = parser->n_numbers = 0;
    new_row(parser, 'q'); /* 0: nothing */
    parse_head(parser);
    do {
        skip_space(parser);
    } while (parse_statement(parser));
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail("cannot be read", path);
    }
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    for (size_t got; (got = fread(text + n, 1, room - n, file)) > 0;) {
        n += got;
        if (n == room) {
            room *= 2;
            text = realloc(text, room + 1);
        }
    }
    fclose(file);
    text[n] = 0;
    return text;
}

static void parse_declaration(Parser *parser, Module *module)
{
    char word[NAME];
    read_name(parser, word);
    if (strcmp(word, ".visible") == 0) {
        return;
    }
    if (strcmp(word, ".entry") == 0) {
        module->kernels =
            realloc(module->kernels, sizeof *module->kernels * (size_t)(module->n_kernels + 1));
        Kernel *kernel = &module->kernels[module->n_kernels++];
        memset(kernel, 0, sizeof *kernel);
        parse_kernel(parser, kernel);
    } else if (strcmp(word, ".func") == 0) {
        skip_function(parser);
    } else if (strcmp(word, ".section") == 0) { /* for debuggers: the end */
        parser->at += strlen(parser->at);
    } else if (strcmp(word, ".extern") == 0 && strncmp(parser->at, " .shared", 8) == 0) {
        skip_line(parser);
    } else if (strcmp(word, ".version") == 0 || strcmp(word, ".target") == 0 ||
               strcmp(word, ".address_size") == 0 || strcmp(word, ".file") == 0) {
        skip_line(parser);
    } else {
        parse_fail(parser, "is not emulated", word);
    }
}

void module_parse(Module *module, const char *text, const char *path)
{
    Parser *parser = calloc(1, sizeof *parser);
    parser->at = text;
    parser->line = 1;
    parser->path = module->path = path;
    find_functions(parser);
    for (skip_space(parser); *parser->at; skip_space(parser)) {
        if (*parser->at != '.') {
            parse_fail(parser, "a declaration is expected", (char[]){*parser->at, 0});
        }
        parse_declaration(parser, module);
    }
    free(parser->registers);
    free(parser->labels);
    free(parser->fixups);
    free(parser->numbers);
    free(parser->functions);
    free(parser);
}

void module_read(Module *module, const char *path)
{
    char *text = read_text(path);
    module_parse(module, text, path);
    free(text);
}

void module_drop(Module *module)
{
    for (int k = 0; k < module->n_kernels; k++) {
        Kernel *kernel = &module->kernels[k];
        for (int i = 0; i < kernel->n_code; i++) {
            free((char *)kernel->code[i].text);
            free(kernel->code[i].operands);
        }
        free(kernel->code);
        free(kernel->rows);
    }
    free(module->kernels);
}

const Kernel *kernel_named(const Module *module, const char *symbol)
{
    for (int i = 0; i < module->n_kernels; i++) {
        if (strcmp(module->kernels[i].name, symbol) == 0) {
            return &module->kernels[i];
        }
    }
    return NULL;
}
