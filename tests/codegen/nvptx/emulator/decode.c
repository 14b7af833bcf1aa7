/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes one instruction: its guard, its opcode, its operands. */
#include "tests/codegen/nvptx/emulator/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int type_bits(const char *word)
{
    static const struct {
        const char *name;
        int bits;
    } types[] = {{"b8", 8},    {"u8", 8},     {"s8", 8},     {"b16", 16},   {"u16", 16},
                 {"s16", 16},  {"f16", 16},   {"b32", 32},   {"u32", 32},   {"s32", 32},
                 {"f32", 32},  {"b64", 64},   {"u64", 64},   {"s64", 64},   {"f64", 64},
                 {"bf16", 16}, {"b128", 128}, {"f16x2", 32}, {"bf16x2", 32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i].name, word) == 0) {
            return types[i].bits;
        }
    }
    return 0;
}

bool opcode_has(const Opcode *opcode, const char *word)
{
    for (int i = 0; i < opcode->n; i++) {
        if (strcmp(opcode->words[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static void split_opcode(Opcode *opcode, const char *text)
{
    opcode->text = text;
    while (*text && opcode->n < 16) {
        size_t n = strcspn(text, ".");
        snprintf(opcode->words[opcode->n++], sizeof *opcode->words, "%.*s", (int)n, text);
        text += n + (text[n] == '.');
    }
}

char immediate_type(const Opcode *opcode, int operand)
{
    const char *first = opcode->words[0], *last = opcode->words[opcode->n - 1];
    if (strcmp(last, "pred") == 0) {
        return 'p';
    }
    if (strcmp(first, "shl") == 0 || strcmp(first, "shr") == 0) {
        return operand == 1 && type_bits(last) == 64 ? 'q' : 'u';
    }
    if (strcmp(first, "bfe") == 0 || strcmp(first, "bfi") == 0) {
        return operand < (first[2] == 'i' ? 3 : 2) && type_bits(last) == 64 ? 'q' : 'u';
    }
    if (strcmp(first, "mbarrier") == 0 || strcmp(first, "cp") == 0) {
        return 'u';
    }
    if (opcode_has(opcode, "wide")) {
        return operand == 3 && type_bits(last) == 32 ? 'q' : 'u';
    }
    return type_bits(last) == 64 ? 'q' : 'u';
}

/* ---- operands ---- */

static bool special_row(Parser *parser, const char *name, Operand *operand)
{
    Kernel *kernel = parser->kernel;
    const struct {
        const char *name;
        int *row;
    } rows[] = {{"%tid.x", &kernel->tid},       {"%ctaid.x", &kernel->ctaid},
                {"%nctaid.x", &kernel->nctaid}, {"%ntid.x", &kernel->ntid},
                {"%laneid", &kernel->laneid},   {"%cluster_ctarank", &kernel->cluster_rank}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *rows[i].row = *rows[i].row ? *rows[i].row : new_row(parser, 'u');
            *operand = (Operand){.kind = ROW, .at = *rows[i].row};
            return true;
        }
    }
    return false;
}

static bool register_row(Parser *parser, const char *name, Operand *operand)
{
    size_t letters = strlen(name);
    while (letters > 0 && isdigit((unsigned char)name[letters - 1])) {
        letters--;
    }
    for (int i = parser->n_registers - 1; i >= 0; i--) {
        const Register *found = &parser->registers[i];
        int at = found->at;
        if (found->count) {
            if (strlen(found->name) != letters || strncmp(found->name, name, letters) != 0) {
                continue;
            }
            int nth = atoi(name + letters);
            at += nth * (found->type == 'q' ? 2 * LANES : found->type == 'p' ? 2 : LANES);
            if (nth >= found->count) {
                continue;
            }
        } else if (strcmp(found->name, name) != 0) {
            continue;
        }
        *operand = (Operand){.kind = found->type == 'p' ? PREDICATE : ROW,
                             .wide = found->type == 'q',
                             .half = found->type == 'h',
                             .at = at,
                             .is_param = found->is_param};
        return true;
    }
    return special_row(parser, name, operand);
}

static int param_named(const Parser *parser, const char *name)
{
    for (int i = 0; i < parser->kernel->n_params; i++) {
        if (strcmp(parser->param_names[i], name) == 0) {
            return parser->kernel->param_offset[i];
        }
    }
    return -1;
}

static uint64_t parse_bits(Parser *parser, char type)
{
    const char *text = parser->at;
    char *end;
    uint64_t bits;
    if (text[0] == '0' && (text[1] == 'f' || text[1] == 'd')) {
        bits = strtoull(text + 2, &end, 16);
    } else {
        bits = strtoull(text, &end, 0);
    }
    if (end == text) {
        parse_fail(parser, "not an operand", "number");
    }
    parser->at = end + (*end == 'U');
    return type == 'q' ? bits : (uint32_t)bits;
}

static Operand parse_operand(Parser *parser, const Opcode *opcode, int nth);

static Operand parse_vector(Parser *parser, const Opcode *opcode, int nth)
{
    Operand parsed[MAX_EXTRA / 2];
    int n = 0;
    do {
        if (n == MAX_EXTRA / 2) {
            parse_fail(parser, "too many operands", opcode->text);
        }
        parsed[n++] = parse_operand(parser, opcode, nth);
    } while (take(parser, ','));
    if (!take(parser, '}') || parser->n_extra + n > MAX_EXTRA) {
        parse_fail(parser, "a list does not end", opcode->text);
    }
    Operand made = {.kind = VECTOR, .first = parser->n_extra, .n = n};
    memcpy(parser->extra + parser->n_extra, parsed, sizeof *parsed * (size_t)n);
    parser->n_extra += n;
    return made;
}

static void parse_symbol(Parser *parser, const char *name, Operand *operand)
{
    int param = param_named(parser, name);
    Kernel *kernel = parser->kernel;
    *operand = (Operand){.kind = ROW, .wide = true};
    if (param >= 0) {
        operand->at = number_row(parser, 'q', PARAMS_ADDRESS + (uint64_t)param);
    } else if (strcmp(name, "tessera_shared") == 0) {
        kernel->shared = kernel->shared ? kernel->shared : new_row(parser, 'q');
        operand->at = kernel->shared;
    } else if (kernel->local_size && strncmp(name, "__local_depot", 13) == 0) {
        operand->at = number_row(parser, 'q', LOCAL_FIRST);
    } else {
        parse_fail(parser, "no such name", name);
    }
}

static Operand parse_memory(Parser *parser, const Opcode *opcode)
{
    char name[NAME];
    Operand operand;
    if (!read_name(parser, name)) {
        parse_fail(parser, "not an address", opcode->text);
    }
    if (!register_row(parser, name, &operand)) {
        parse_symbol(parser, name, &operand);
    }
    if (operand.is_param && take(parser, ']')) {
        return operand;
    }
    operand.kind = MEMORY;
    if (take(parser, '+')) {
        skip_space(parser);
        char *end;
        operand.offset = strtoll(parser->at, &end, 0);
        parser->at = end;
    } else if (take(parser, ',')) {
        if (!take(parser, '{')) {
            parse_fail(parser, "not an address", opcode->text);
        }
        Operand list = parse_vector(parser, opcode, 1);
        operand.first = list.first;
        operand.n = list.n;
    }
    if (!take(parser, ']')) {
        parse_fail(parser, "an address does not end", opcode->text);
    }
    return operand;
}

static Operand parse_operand(Parser *parser, const Opcode *opcode, int nth)
{
    char name[NAME];
    Operand operand = {.kind = SINK};
    if (take(parser, '{')) {
        return parse_vector(parser, opcode, nth);
    }
    if (take(parser, '[')) {
        return parse_memory(parser, opcode);
    }
    bool negated = take(parser, '!');
    skip_space(parser);
    if (isdigit((unsigned char)*parser->at) || *parser->at == '-') {
        char type = immediate_type(opcode, nth);
        uint64_t bits = parse_bits(parser, type);
        return (Operand){.kind = type == 'p' ? PREDICATE : ROW,
                         .wide = type == 'q',
                         .at = number_row(parser, type, bits)};
    }
    if (!read_name(parser, name)) {
        parse_fail(parser, "not an operand", opcode->text);
    }
    if (strcmp(name, "_") == 0) {
        return operand;
    }
    if (strcmp(opcode->words[0], "bra") == 0) {
        add_fixup(parser, name);
        return (Operand){.kind = LABEL};
    }
    if (!register_row(parser, name, &operand)) {
        parse_symbol(parser, name, &operand);
    }
    operand.negated = negated;
    return operand;
}

/* ---- the instruction ---- */

static Run *find(const Opcode *opcode, Inst *inst)
{
    Run *(*const families[])(const Opcode *,
                             Inst *) = {find_flow,   find_memory,  find_lanes,  find_convert,
                                        find_copies, find_barrier, find_matrix, find_group_matrix};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        Run *found = families[i](opcode, inst);
        if (found) {
            return found;
        }
    }
    return NULL;
}

static void parse_guard(Parser *parser, Inst *inst)
{
    inst->guard = -1;
    if (take(parser, '@')) {
        char name[NAME];
        Operand operand;
        inst->guard_negated = take(parser, '!');
        if (!read_name(parser, name) || !register_row(parser, name, &operand)) {
            parse_fail(parser, "no such predicate", name);
        }
        inst->guard = operand.at;
    }
}

static void parse_operands(Parser *parser, const Opcode *opcode)
{
    parser->n_main = parser->n_extra = 0;
    while (!take(parser, ';')) {
        if (parser->n_main == MAX_MAIN) {
            parse_fail(parser, "too many operands", opcode->text);
        }
        parser->main[parser->n_main] = parse_operand(parser, opcode, parser->n_main);
        parser->n_main++;
        if (!take(parser, ',')) {
            take(parser, '|'); /* a second result */
        }
    }
}

/* What a call's parameter holds is in a register. */
static bool moves_param(const Parser *parser)
{
    bool found = false;
    for (int i = 0; i < parser->n_main; i++) {
        found = found || parser->main[i].is_param;
    }
    return found;
}

void parse_instruction(Parser *parser)
{
    Kernel *kernel = parser->kernel;
    Inst inst = {.target = -1, .line = parser->line};
    parse_guard(parser, &inst);
    char name[NAME];
    if (!read_name(parser, name)) {
        parse_fail(parser, "not an instruction", (char[]){*parser->at, 0});
    }
    if (strncmp(name, "call", 4) == 0 && inst.guard < 0) {
        parse_call(parser);
        return;
    }
    if (is_return(parser, name)) {
        leave_call(parser);
        snprintf(name, sizeof name, "bra.uni");
    }
    inst.text = strdup(name);
    Opcode opcode = {0};
    split_opcode(&opcode, inst.text);
    parse_operands(parser, &opcode);
    if (moves_param(parser)) {
        /* Two halves of a parameter, as a pair of registers, are a move of both. */
        char move[NAME];
        const char *type = opcode.words[opcode.n - 1];
        bool pair = opcode_has(&opcode, "v2");
        if (opcode_has(&opcode, "v4") || (pair && strcmp(type, "b32") != 0)) {
            parse_fail(parser, "a parameter that is not emulated", name);
        }
        snprintf(move, sizeof move, "mov.%s", pair ? "b64" : type);
        free((char *)inst.text);
        inst.text = strdup(move);
        opcode = (Opcode){0};
        split_opcode(&opcode, inst.text);
    }
    inst.n = parser->n_main;
    size_t main_size = sizeof(Operand) * (size_t)parser->n_main;
    size_t extra_size = sizeof(Operand) * (size_t)parser->n_extra;
    inst.operands = malloc(main_size + extra_size + 1);
    memcpy(inst.operands, parser->main, main_size);
    memcpy(inst.operands + inst.n, parser->extra, extra_size);
    for (int i = 0; i < inst.n + parser->n_extra; i++) {
        inst.operands[i].first += inst.n;
    }
    inst.run = find(&opcode, &inst);
    if (!inst.run) {
        parse_fail(parser, "is not emulated", name);
    }
    if (kernel->n_code == parser->code_room) {
        parser->code_room = 2 * parser->code_room + 256;
        kernel->code = realloc(kernel->code, sizeof *kernel->code * (size_t)parser->code_room);
    }
    kernel->code[kernel->n_code++] = inst;
}
