/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes instructions from LLVM's disassembly: operands and modifiers are parsed once. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 256 };

/* ---- operands ---- */

typedef struct Name {
    const char *name;
    int at, count;
} Name;

static const Name SPECIAL[] = {{"vcc", S_VCC, 2},
                               {"vcc_lo", S_VCC, 1},
                               {"vcc_hi", S_VCC + 1, 1},
                               {"exec", S_EXEC, 2},
                               {"exec_lo", S_EXEC, 1},
                               {"exec_hi", S_EXEC + 1, 1},
                               {"m0", S_M0, 1},
                               {"null", S_NULL, 1},
                               {"flat_scratch", 102, 2},
                               {"flat_scratch_lo", 102, 1},
                               {"flat_scratch_hi", 103, 1},
                               {NULL, 0, 0}};

/* v5, v[2:3], v5.l, s[0:7], ttmp9, a4: of registers. */
static bool registers(const char *text, Operand *operand)
{
    static const struct {
        const char *prefix;
        OperandKind kind;
        int first;
    } FILES[] = {
        {"v", VECTOR, 0}, {"a", VECTOR, FIRST_ACC}, {"s", SCALAR, 0}, {"ttmp", SCALAR, S_TTMP}};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        size_t n = strlen(FILES[i].prefix);
        const char *rest = text + n;
        if (strncmp(text, FILES[i].prefix, n) != 0 || !(isdigit(*rest) || *rest == '[')) {
            continue;
        }
        int first = 0, last = 0;
        char half = 0;
        if (sscanf(rest, "[%d:%d]", &first, &last) == 2) {
        } else if (sscanf(rest, "[%d]", &first) == 1 || sscanf(rest, "%d.%c", &first, &half) >= 1) {
            last = first;
        } else {
            return false;
        }
        operand->kind = FILES[i].kind;
        operand->at = FILES[i].first + first;
        operand->count = last - first + 1;
        operand->half = half == 'l' ? LOW : half == 'h' ? HIGH : WHOLE;
        return true;
    }
    return false;
}

static bool number(const char *text, Operand *operand)
{
    char *end;
    if (!isdigit(*text) && *text != '-' && *text != '.') {
        return false;
    }
    operand->is_hex = text[0] == '0' && text[1] == 'x';
    if (!operand->is_hex && strpbrk(text, ".eE")) {
        operand->kind = FLOATING;
        operand->floating = strtod(text, &end);
    } else {
        operand->kind = INTEGER;
        operand->integer =
            operand->is_hex ? (int64_t)strtoull(text, &end, 16) : strtoll(text, &end, 10);
    }
    return *end == 0;
}

/* -|v1|, sext(v1), -v1: what is around is taken off. */
static bool operand_of(char *text, Operand *operand)
{
    *operand = (Operand){.kind = OPERAND_OFF};
    size_t n = strlen(text);
    if (strncmp(text, "lit(", 4) == 0 && text[n - 1] == ')') { /* in 32 bits, though it is short */
        text[n - 1] = 0;
        return number(text + 4, operand);
    }
    if (number(text, operand)) {
        return true;
    }
    if (strncmp(text, "neg(", 4) == 0 && text[n - 1] == ')') {
        operand->negated = true;
        text[n - 1] = 0;
        text += 4;
    } else if (*text == '-') {
        operand->negated = true;
        text++;
    }
    n = strlen(text);
    if (*text == '|' && n > 2 && text[n - 1] == '|') {
        operand->absolute = true;
        text[n - 1] = 0;
        text++;
    } else if (strncmp(text, "sext(", 5) == 0 && text[n - 1] == ')') {
        operand->extended = true;
        text[n - 1] = 0;
        text += 5;
    }
    if (strcmp(text, "off") == 0) {
        return true;
    }
    if (strcmp(text, "scc") == 0 || strcmp(text, "src_scc") == 0) {
        operand->kind = SCC;
        operand->count = 1;
        return true;
    }
    for (const Name *name = SPECIAL; name->name; name++) {
        if (strcmp(text, name->name) == 0) {
            operand->kind = SCALAR;
            operand->at = name->at;
            operand->count = name->count;
            return true;
        }
    }
    bool negated = operand->negated, absolute = operand->absolute;
    if (number(text, operand)) {
        operand->negated = negated;
        operand->absolute = absolute;
        return true;
    }
    return registers(text, operand);
}

/* ---- modifiers ---- */

static int list_bits(const char *list, int *values, int most)
{
    int n = 0, bits = 0;
    for (const char *c = list; *c && *c != ']' && n < most; c++) {
        if (isdigit(*c)) {
            int value = (int)strtol(c, (char **)&c, 10);
            if (values) {
                values[n] = value;
            }
            bits |= (value & 1) << n++;
            c--;
        }
    }
    return bits;
}

static Select select_of(const char *text)
{
    static const char *const NAMES[] = {"DWORD",  "BYTE_0", "BYTE_1", "BYTE_2",
                                        "BYTE_3", "WORD_0", "WORD_1"};
    for (int i = 0; i < 7; i++) {
        if (strcmp(text, NAMES[i]) == 0) {
            return (Select)i;
        }
    }
    return DWORD;
}

static bool swizzle(const char *text, Inst *inst)
{
    int a, b;
    if (sscanf(text, "swizzle(SWAP,%d)", &a) == 1 || sscanf(text, "swizzle(SWAP, %d)", &a) == 1) {
        inst->offset = 0x1f | a << 10;
    } else if (sscanf(text, "swizzle(REVERSE,%d)", &a) == 1) {
        inst->offset = 0x1f | (a - 1) << 10;
    } else if (sscanf(text, "swizzle(BROADCAST,%d,%d)", &a, &b) == 2) {
        inst->offset = (0x1f & ~(a - 1)) | b << 5;
    } else {
        char mask[6];
        if (sscanf(text, "swizzle(BITMASK_PERM,\"%5[01pi]\")", mask) != 1) {
            return false;
        }
        inst->offset = 0;
        for (int i = 0; i < 5; i++) {
            int bit = 4 - i;
            inst->offset |= mask[i] == 'p' || mask[i] == 'i' ? 1 << bit : 0;
            inst->offset |= mask[i] == '1' ? 32 << bit : 0;
            inst->offset |= mask[i] == 'i' ? 1024 << bit : 0;
        }
    }
    return true;
}

typedef struct LaneName {
    const char *name;
    Lanes lanes;
} LaneName;

static bool lane_modifier(const char *key, const char *value, Inst *inst)
{
    static const LaneName NAMES[] = {
        {"row_shl", SHIFT_LEFT}, {"row_shr", SHIFT_RIGHT},         {"row_ror", ROTATE},
        {"row_mirror", MIRROR},  {"row_half_mirror", HALF_MIRROR}, {"row_share", SHARE},
        {"row_xmask", XOR_ROW},  {"row_newbcast", SHARE}};
    if (strcmp(key, "quad_perm") == 0 || strcmp(key, "dpp8") == 0) {
        inst->lanes = key[0] == 'q' ? QUAD : DPP8;
        list_bits(value, inst->lane_list, 8);
        return true;
    }
    if (strcmp(key, "row_bcast") == 0) {
        inst->lanes = atoi(value) == 15 ? BROADCAST_15 : BROADCAST_31;
        return true;
    }
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(key, NAMES[i].name) == 0) {
            inst->lanes = NAMES[i].lanes;
            inst->lane_argument = atoi(value);
            return true;
        }
    }
    return false;
}

static bool select_modifier(const char *key, const char *value, Inst *inst)
{
    int at;
    if (sscanf(key, "src%d_sel", &at) == 1 && at < 2) {
        /* operands follow the result, or, of comparisons too, the mask */
        inst->operands[at + 1].select = select_of(value);
    } else if (strcmp(key, "dst_sel") == 0) {
        inst->to = select_of(value);
    } else if (strcmp(key, "dst_unused") == 0) {
        inst->keeps = strcmp(value, "UNUSED_PRESERVE") == 0;
        return strcmp(value, "UNUSED_SEXT") != 0;
    } else {
        return false;
    }
    inst->is_sdwa = true;
    return true;
}

/* Cache policies and what the text has twice change no result. */
static bool has_no_effect(const char *word)
{
    static const char *const WORDS[] = {"glc", "slc", "dlc", "sc0", "sc1", "nt"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(word, WORDS[i]) == 0) {
            return true;
        }
    }
    return strncmp(word, "th:TH_", 6) == 0 || strncmp(word, "scope:SCOPE_", 12) == 0;
}

static bool modifier(char *word, Inst *inst)
{
    char *value = strchr(word, ':');
    if (has_no_effect(word)) {
        return true;
    }
    if (!value) {
        inst->clamps |= strcmp(word, "clamp") == 0;
        return strcmp(word, "clamp") == 0 || lane_modifier(word, "", inst);
    }
    *value++ = 0;
    long n = strtol(value, NULL, 0);
    if (strcmp(word, "offset") == 0 || strcmp(word, "offset0") == 0) {
        inst->offset = n;
        return strncmp(value, "swizzle", 7) != 0 || swizzle(value, inst);
    }
    if (strcmp(word, "offset1") == 0) {
        inst->offset1 = n;
    } else if (strcmp(word, "op_sel") == 0) {
        inst->selects = list_bits(value, NULL, 8);
    } else if (strcmp(word, "op_sel_hi") == 0) {
        inst->selects_high = list_bits(value, NULL, 8);
    } else if (strcmp(word, "neg_lo") == 0) {
        inst->negates = list_bits(value, NULL, 8);
    } else if (strcmp(word, "neg_hi") == 0) {
        inst->negates_high = list_bits(value, NULL, 8);
    } else if (strcmp(word, "bitop3") == 0) {
        inst->bits = (int)n;
    } else if (strcmp(word, "mul") == 0) {
        inst->scale = n == 2 ? 1 : 2;
    } else if (strcmp(word, "div") == 0) {
        inst->scale = -1;
    } else if (strcmp(word, "row_mask") == 0) {
        inst->row_mask = (int)n;
    } else if (strcmp(word, "bank_mask") == 0) {
        inst->bank_mask = (int)n;
    } else if (strcmp(word, "bound_ctrl") == 0) {
        inst->bounded = true;
    } else if (strcmp(word, "fi") == 0) {
        inst->fetches_inactive = n == 1;
    } else {
        return lane_modifier(word, value, inst) || select_modifier(word, value, inst);
    }
    return true;
}

/* ---- lines ---- */

/* Cuts at the separator outside of brackets; the next piece, or NULL. */
static char *cut(char *text, char separator)
{
    int depth = 0;
    for (; *text; text++) {
        depth += (*text == '[' || *text == '(') - (*text == ']' || *text == ')');
        if (*text == separator && depth == 0) {
            *text = 0;
            return text + 1;
        }
    }
    return NULL;
}

static char *skip_spaces(char *text)
{
    while (isspace(*text)) {
        text++;
    }
    return text;
}

static const char *parse_words(char *text, Inst *inst, bool is_first)
{
    for (char *word = text, *next; word; word = next) {
        word = skip_spaces(word);
        next = cut(word, ' ');
        if (!*word) {
            continue;
        }
        Operand operand;
        char copy[MAX_TEXT];
        snprintf(copy, sizeof copy, "%s", word);
        if (is_first && operand_of(copy, &operand)) {
            if (inst->n_operands == MAX_OPERANDS) {
                return "so many operands";
            }
            inst->operands[inst->n_operands++] = operand;
        } else if (!modifier(word, inst)) {
            return "an operand or modifier";
        }
        is_first = false;
    }
    return NULL;
}

static const char *parse_rest(char *rest, Inst *inst)
{
    for (char *piece = rest, *next; piece; piece = next) {
        next = cut(piece, ',');
        const char *problem = parse_words(piece, inst, true);
        if (problem) {
            return problem;
        }
    }
    return NULL;
}

/* Waits of the pipelines, hints, caches: nothing that an answer depends on. */
static bool is_idle(const char *name)
{
    static const char *const NAMES[] = {"s_nop",
                                        "s_delay_alu",
                                        "s_wait_alu",
                                        "s_waitcnt_depctr",
                                        "s_clause",
                                        "s_sendmsg",
                                        "s_code_end",
                                        "s_sleep",
                                        "s_setprio",
                                        "s_wakeup",
                                        "s_icache_inv",
                                        "s_dcache_inv",
                                        "s_dcache_wb",
                                        "buffer_gl0_inv",
                                        "buffer_gl1_inv",
                                        "buffer_wbl2",
                                        "buffer_inv",
                                        "buffer_wbinvl1",
                                        "buffer_wbinvl1_vol",
                                        "global_wb",
                                        "global_inv",
                                        "global_wbinv",
                                        "s_waitcnt_vscnt",
                                        "s_wait_storecnt",
                                        "s_set_inst_prefetch_distance",
                                        "s_inst_prefetch",
                                        "s_prefetch_inst",
                                        "s_prefetch_inst_pc_rel",
                                        "s_setreg_imm32_b32_nothing",
                                        "s_round_mode_nothing",
                                        "buffer_invl2"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void do_nothing(Wave *wave, const Inst *inst)
{
    (void)wave, (void)inst;
}

static void strip(char *name, Inst *inst)
{
    static const char *const ENDS[] = {"_e64_dpp", "_e32_dpp", "_dpp", "_sdwa", "_e32", "_e64"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        size_t length = strlen(ENDS[i]);
        if (n > length && strcmp(name + n - length, ENDS[i]) == 0) {
            name[n - length] = 0;
            inst->is_sdwa |= strcmp(ENDS[i], "_sdwa") == 0;
            return;
        }
    }
}

static const char *decode_part(Inst *inst, char *line, int major)
{
    char *name = skip_spaces(line), *rest = cut(name, ' ');
    inst->row_mask = inst->bank_mask = 15;
    inst->selects_high = -1;
    if (is_idle(name)) {
        inst->run = do_nothing;
        return NULL;
    }
    if (strncmp(name, "v_dual_", 7) == 0) {
        memmove(name + 2, name + 7, strlen(name + 7) + 1);
    }
    strip(name, inst);
    bool counts = strcmp(name, "s_waitcnt") == 0;
    const char *problem = rest && !counts ? parse_rest(rest, inst) : NULL;
    if (problem) {
        return problem;
    }
    static Handler *(*const FAMILIES[])(const char *, Inst *, int) = {
        find_special, find_matrix, find_vector, find_local, find_memory, find_private, find_scalar};
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES && !inst->run; i++) {
        inst->run = FAMILIES[i](name, inst, major);
    }
    return inst->run ? NULL : "this instruction";
}

static void run_dual(Wave *wave, const Inst *inst);

const char *decode_one(Inst *inst, const char *text, int major)
{
    char line[MAX_TEXT];
    snprintf(line, sizeof line, "%s", text);
    char *second = strstr(line, " :: ");
    if (second) {
        *second = 0;
        second += 4;
    }
    const char *problem = decode_part(inst, line, major);
    if (problem || !second) {
        return problem;
    }
    inst->second = calloc(2, sizeof *inst);
    inst->second[0] = *inst;
    inst->second[0].second = NULL;
    inst->second[1].text = inst->text;
    inst->run = run_dual;
    return decode_part(&inst->second[1], skip_spaces(second), major);
}

/* Both halves read before either writes: what the first writes is put aside. */
static void run_dual(Wave *wave, const Inst *inst)
{
    const Inst *one = &inst->second[0], *two = &inst->second[1];
    int at = one->operands[0].at;
    uint32_t before[MAX_LANES], after[MAX_LANES];
    memcpy(before, wave->v[at], sizeof before);
    one->run(wave, one);
    memcpy(after, wave->v[at], sizeof after);
    memcpy(wave->v[at], before, sizeof before);
    two->run(wave, two);
    memcpy(wave->v[at], after, sizeof after);
}
