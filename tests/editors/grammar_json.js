// SPDX-License-Identifier: Apache-2.0
// node grammar_json.js grammar.js: the grammar as JSON, as `tree-sitter generate` evaluates it.
'use strict';

const path = require('path');

const rule = (value) => {
    if (typeof value === 'string') {
        return { type: 'STRING', value };
    }
    return value instanceof RegExp ? { type: 'PATTERN', value: value.source } : value;
};
const many = (type) => (...members) => ({ type, members: members.map(rule) });
const one = (type) => (content) => ({ type, content: rule(content) });
const precedence = (type) => (value, content) => ({ type, value, content: rule(content) });

global.seq = many('SEQ');
global.choice = many('CHOICE');
global.repeat = one('REPEAT');
global.repeat1 = one('REPEAT1');
global.token = one('TOKEN');
global.token.immediate = one('IMMEDIATE_TOKEN');
global.optional = (content) => global.choice(content, { type: 'BLANK' });
global.prec = precedence('PREC');
global.prec.left = precedence('PREC_LEFT');
global.prec.right = precedence('PREC_RIGHT');
global.field = (name, content) => ({ type: 'FIELD', name, content: rule(content) });
global.alias = (content, value) => ({ type: 'ALIAS', content: rule(content), value: rule(value) });
global.grammar = (options) => {
    const $ = new Proxy({}, {
        get: (_, name) => {
            if (!(name in options.rules)) {
                throw new Error(`no rule is called ${String(name)}`);
            }
            return { type: 'SYMBOL', name };
        },
    });
    const names = (list) => list.map((symbol) => symbol.name);
    const rules = Object.fromEntries(Object.entries(options.rules).map(
        ([name, make]) => [name, rule(make($))]));
    return {
        name: options.name,
        word: options.word($).name,
        rules,
        extras: options.extras($).map(rule),
        conflicts: options.conflicts($).map(names),
        supertypes: names(options.supertypes($)),
    };
};

console.log(JSON.stringify(require(path.resolve(process.argv[2]))));
