// SPDX-License-Identifier: Apache-2.0
// The tile language for tree-sitter. Where a statement ends follows from what can come next.
// `tree-sitter generate` makes the parser.
'use strict';

const PREC = {
    or: 1, and: 2, not: 3, compare: 4, bit_or: 5, bit_xor: 6, bit_and: 7, shift: 8, add: 9,
    product: 10, unary: 11, postfix: 12,
};

const BINARY = [
    [PREC.or, ['or']],
    [PREC.and, ['and']],
    [PREC.compare, ['==', '!=', '<', '<=', '>', '>=']],
    [PREC.bit_or, ['|']],
    [PREC.bit_xor, ['^']],
    [PREC.bit_and, ['&']],
    [PREC.shift, ['<<', '>>']],
    [PREC.add, ['+', '-']],
    [PREC.product, ['*', '/', '//', '%', '@']],
];

// Of ir/schedule.def: a test compares.
const SCHEDULE_KEYS = [
    'tile', 'reduction', 'cluster', 'multicast', 'repack_computed', 'repack_scales',
    'repack_pitched', 'repack_k_major', 'repack_mn_major', 'repack_upcast', 'im2col', 'pooling',
    'swap_ab', 'column_reductions', 'materialize', 'split_k', 'split_k_tail', 'warps', 'pingpong',
    'occupancy', 'align', 'scan', 'persistent', 'atomics', 'tiles_per_cluster', 'raster',
    'peel', 'pipeline', 'ordered_mma', 'overlap', 'instruction', 'merge_dots', 'copy',
    'swizzle', 'registers', 'epilogue', 'strips', 'dependent_launch', 'vector', 'threads',
    'unroll', 'l2_fetch',
];

// Of a call or an index: on the same line as what it is of, as `tessera fmt` writes it.
const OPEN = token.immediate('(');
const AT = token.immediate('[');

const list1 = (rule) => seq(rule, repeat(seq(',', rule)));
const list = (rule) => optional(seq(rule, repeat(seq(',', rule)), optional(',')));

module.exports = grammar({
    name: 'tile',
    word: ($) => $.identifier,
    extras: ($) => [/\s/, $.comment],
    supertypes: ($) => [$._declaration, $._statement, $._expression, $._operand],
    conflicts: ($) => [
        // `let a = b`, then `if` on the next line: a statement, or a choice between two values.
        [$._expression, $.conditional_expression],
        // `sum(`: a call, or a reduction.
        [$._operand, $.reduction],
    ],

    rules: {
        source_file: ($) => repeat(choice($._declaration, ';')),

        _declaration: ($) => choice(
            $.kernel, $.derived_kernel, $.function, $.derivative, $.schedule, $.tune, $.import),

        kernel: ($) => seq('kernel', field('name', $.identifier), $._head, $._body),
        derived_kernel: ($) => seq('kernel', field('name', $.identifier), '=',
            field('value', $._expression)),
        function: ($) => seq('fn', field('name', $._function_name), $._head, $._body),
        derivative: ($) => seq('derivative', 'of', field('name', $._function_name), $._head,
            $._body),
        _function_name: ($) => choice($.identifier, $.dotted_name),
        dotted_name: ($) => seq($.identifier, repeat1(seq('.', $.identifier))),
        _head: ($) => seq(field('parameters', $.parameters),
            optional(seq('->', field('results', $.results))), optional($.where_clause)),
        _body: ($) => choice(seq('=', field('value', $._expression)), field('body', $.block)),

        parameters: ($) => seq('(', list($.parameter), ')'),
        parameter: ($) => seq(
            field('name', $.identifier),
            optional(seq(':', optional(choice('const', 'inout')), field('type', $.type))),
            optional(seq('=', field('default', $._expression)))),
        results: ($) => choice($.result, seq('(', list1($.result), ')')),
        result: ($) => seq(optional(seq(field('name', $.identifier), ':')), field('type', $.type)),
        type: ($) => seq(field('element', $.identifier),
            optional(seq(AT, list(choice($._expression, $.rest)), ']'))),
        rest: () => '...',
        where_clause: ($) => seq('where', list1($._clause)),
        _clause: ($) => choice($.class_clause, $.size_clause, $.binary_expression),
        class_clause: ($) => seq(field('name', $.identifier), ':', field('class', $.identifier)),
        size_clause: ($) => seq(field('name', $.identifier), '=', field('value', $._operand)),

        // ---- statements ----

        block: ($) => seq('{', repeat(choice($._statement, ';')), '}'),
        _statement: ($) => choice(
            $.definition, $.assignment, $.if_statement, $.for_statement, $.while_statement,
            $.parallel_statement, $.unchecked_statement, $.return_statement, $.assume_statement,
            $.break_statement, $.continue_statement, $.effect),
        definition: ($) => seq(
            choice('let', 'var'),
            field('pattern', choice($.identifier, $.array_pattern, $.tuple_pattern)),
            optional(seq(':', field('type', $.type))), '=', field('value', $._expression)),
        array_pattern: ($) => seq(field('name', $.identifier), AT, list1($.index_axis), ']'),
        tuple_pattern: ($) => seq('(', list($.identifier), ')'),
        assignment: ($) => seq(
            field('target', choice($.identifier, $.element, $.tuple)),
            choice('=', '+=', '-=', '*=', '/='), field('value', $._expression)),
        element: ($) => seq(field('array', $.identifier), AT, list(choice($._expression, $.slice)),
            ']'),
        // print(…), assert(…), atomic.add(…)
        effect: ($) => seq(field('function', choice($.identifier, $.atomic_name)),
            field('arguments', $.arguments)),
        atomic_name: ($) => seq($.identifier, '.', choice($.identifier,
            alias('and', $.identifier), alias('or', $.identifier))),
        if_statement: ($) => seq('if', field('condition', $._expression), field('body', $.block),
            optional(seq('else', field('otherwise', choice($.block, $.if_statement))))),
        for_statement: ($) => seq('for', $.axis, field('body', $.block)),
        while_statement: ($) => seq('while', field('condition', $._expression),
            field('body', $.block)),
        parallel_statement: ($) => seq('parallel', list1($.axis), field('body', $.block)),
        unchecked_statement: ($) => seq('unchecked', field('body', $.block)),
        return_statement: ($) => seq('return', list1($._expression)),
        assume_statement: ($) => seq('assume', $._expression,
            optional(seq('in', list1($._expression)))),
        break_statement: () => 'break',
        continue_statement: () => 'continue',
        axis: ($) => seq(field('name', $.identifier), 'in', field('extent', $._expression),
            optional(seq('..', field('end', $._expression))), optional($.step)),
        step: ($) => seq('by', choice('auto', seq(optional('exactly'), $._expression))),
        index_axis: ($) => seq(field('name', $.identifier), 'in', field('extent', $._operand),
            optional(seq('..', field('end', $._operand)))),

        // ---- expressions ----

        _expression: ($) => choice($._operand, $.conditional_expression),
        conditional_expression: ($) => seq(field('value', $._operand), 'if',
            field('condition', $._operand), 'else', field('otherwise', $._expression)),
        _operand: ($) => choice(
            $.identifier, $.integer, $.float, $.string, $.true, $.false, $.none,
            $.binary_expression, $.unary_expression, $.call, $.index_expression,
            $.field_expression, $.reduction, $.parenthesized_expression, $.default_read, $.tuple,
            $.list),
        binary_expression: ($) => choice(...BINARY.flatMap(([level, operators]) => operators.map(
            (operator) => prec.left(level, seq(field('left', $._operand),
                field('operator', operator), field('right', $._operand)))))),
        unary_expression: ($) => choice(
            prec(PREC.not, seq(field('operator', 'not'), $._operand)),
            prec(PREC.unary, seq(field('operator', choice('-', '+', '~')), $._operand))),
        call: ($) => prec(PREC.postfix, seq(
            field('function', choice($._operand, alias('var', $.identifier))),
            field('arguments', $.arguments))),
        arguments: ($) => seq(OPEN, list(choice($._expression, $.named_argument)), ')'),
        named_argument: ($) => seq(field('name', $.identifier), '=', field('value', $._expression)),
        index_expression: ($) => prec(PREC.postfix, seq(field('array', $._operand), AT,
            list(choice($._expression, $.slice)), ']')),
        slice: ($) => seq(optional($._expression), ':', optional($._expression),
            optional(seq(':', $._expression))),
        field_expression: ($) => prec(PREC.postfix, seq(field('of', $._operand), '.',
            field('name', choice($.identifier, alias('and', $.identifier),
                alias('or', $.identifier))))),
        // A prefix reduction: its body is a product.
        reduction: ($) => seq(field('function', $.identifier), OPEN, list1($.index_axis),
            optional(seq('if', field('condition', $._expression))), ')',
            prec.right(PREC.product, field('body', $._operand))),
        parenthesized_expression: ($) => seq('(', $._expression, ')'),
        default_read: ($) => seq('(', $.index_expression, 'else', $._expression, ')'),
        tuple: ($) => seq('(', $._expression, ',', list($._expression), ')'),
        list: ($) => seq('[', list($._expression), ']'),

        // ---- schedules ----

        schedule: ($) => seq('schedule', field('kernel', $.identifier),
            optional(seq('as', field('name', $.identifier))), optional($._targets),
            optional($._condition), '{', repeat(choice($.entry, ';')), '}'),
        tune: ($) => seq('tune', field('kernel', $.identifier), optional($._targets),
            optional($._condition), '{', repeat(choice($.choices, ';')), '}'),
        _targets: ($) => seq('on', list1($.target)),
        _condition: ($) => seq('when', field('when', $._expression)),
        target: () => token(/[A-Za-z_][A-Za-z0-9_.-]*/),
        entry: ($) => seq(optional($.scope), $.schedule_key,
            repeat1(seq(choice($.identifier, $.integer), optional(',')))),
        choices: ($) => seq(optional($.scope), $.schedule_key, optional($.identifier), 'in',
            list1($._choice)),
        _choice: ($) => seq(choice($.identifier, $.integer), optional(seq('..', $.integer))),
        scope: ($) => seq('launch', $.integer, ':'),
        schedule_key: () => choice(...SCHEDULE_KEYS),

        import: ($) => seq('import', field('file', choice($.string, $.identifier))),

        // ---- tokens ----

        identifier: () => /[A-Za-z_][A-Za-z0-9_]*/,
        integer: () => /0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*/,
        float: () => /([0-9][0-9_]*)?\.[0-9][0-9_]*([eE][-+]?[0-9_]+)?|[0-9][0-9_]*[eE][-+]?[0-9_]+/,
        string: () => /"(\\.|[^"\\\n])*"/,
        true: () => 'true',
        false: () => 'false',
        none: () => 'None',
        comment: () => /#[^\n]*/,
    },
});
