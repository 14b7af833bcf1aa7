/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the parser of PTX text, shared by parse.c, decode.c and call.c. */
#ifndef TESSERA_TESTS_PTX_PARSE_H
#define TESSERA_TESTS_PTX_PARSE_H

#include "tests/codegen/nvptx/emulator/emulator.h"

enum { MAX_MAIN = 20, MAX_EXTRA = 512, MAX_DEPTH = 16, MAX_ARGS = 8, NAME = 192 };

typedef struct Register {
    char name[NAME]; /* of a range: its prefix */
    char type;       /* 'p', 'u', 'q' */
    int at, count;   /* count: of a range; 0: a name */
    int scope;
    bool is_param; /* of a call: `[name]` is its value */
} Register;

typedef struct Function {
    char name[NAME];
    const char *at; /* behind `.func` */
    int line;
} Function;

typedef struct Label {
    char name[NAME];
    int scope, pc;
} Label;

typedef struct Fixup {
    char name[NAME];
    int scope, inst;
} Fixup;

typedef struct Number {
    char type;
    uint64_t bits;
    int at;
} Number;

typedef struct Parser {
    const char *at;
    int line;
    const char *path;
    Kernel *kernel;
    char param_names[MAX_PARAMS][NAME];
    int room, code_room; /* of rows, of code */
    int scopes[MAX_DEPTH], depth, last_scope;
    Register *registers;
    int n_registers;
    Label *labels;
    int n_labels;
    Fixup *fixups;
    int n_fixups;
    Number *numbers;
    int n_numbers;
    Function *functions;
    int n_functions, calls; /* calls: that the statement is inside of */
    Operand main[MAX_MAIN], extra[MAX_EXTRA];
    int n_main, n_extra;
} Parser;

_Noreturn void parse_fail(const Parser *parser, const char *what, const char *name);
void skip_space(Parser *parser);
bool read_name(Parser *parser, char *name);
bool take(Parser *parser, char c);
void expect(Parser *parser, char c);
int new_row(Parser *parser, char type);
int number_row(Parser *parser, char type, uint64_t bits);
void add_name(Parser *parser, const Register *made);
void open_scope(Parser *parser);
void add_label(Parser *parser, const char *name); /* here */
/* The next instruction branches to this label. */
void add_fixup(Parser *parser, const char *name);
/* One statement of a body; whether there was one before its end. */
bool parse_statement(Parser *parser);
/* Notes all functions of the text that begins here. */
void find_functions(Parser *parser);
/* Goes past a function that find_functions has noted. */
void skip_function(Parser *parser);
/* The operands of a call, and in its place the body of what it calls. */
void parse_call(Parser *parser);
bool is_return(const Parser *parser, const char *opcode); /* of such a body */
void leave_call(Parser *parser);
/* An instruction, up to its semicolon. */
void parse_instruction(Parser *parser);

#define GROW(array, n)                                                                             \
    do {                                                                                           \
        if (((n) & ((n)-1)) == 0) {                                                                \
            (array) = realloc((array), sizeof *(array) * (size_t)((n) ? 2 * (n) : 1));             \
        }                                                                                          \
    } while (0)

#endif
