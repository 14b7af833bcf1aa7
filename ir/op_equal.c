/* SPDX-License-Identifier: Apache-2.0 */
/* Structural equality of ops. Values that regions define are compared by position: two values are
 * equal if both are the n-th argument, or a result of the n-th op, of blocks that are compared. */
#include "ir/ir.h"

#include <string.h>

typedef struct Pair {
    const struct Pair *outer;
    const Block *a, *b;
} Pair;

static bool same_place(const Op *a, const Op *b)
{
    const Op *x = a->parent->first, *y = b->parent->first;
    while (x && y && x != a) {
        x = x->next;
        y = y->next;
    }
    return x == a && y == b;
}

static const Block *home(const Value *value)
{
    return value->def ? value->def->parent : value->block;
}

static bool same_value(const Pair *pairs, const Value *a, const Value *b)
{
    if (a == b || !a || !b) {
        return a == b;
    }
    for (const Pair *pair = pairs; pair; pair = pair->outer) {
        if (pair->a == home(a) && pair->b == home(b)) {
            return a->index == b->index && !a->def == !b->def &&
                   (!a->def || same_place(a->def, b->def));
        }
    }
    return false;
}

static bool same_lists(const Attr *a, const Attr *b)
{
    size_t n = (size_t)a->n;
    bool ints = !a->ints || !b->ints || memcmp(a->ints, b->ints, sizeof *a->ints * n) == 0;
    bool dims = !a->dims || !b->dims || memcmp(a->dims, b->dims, sizeof *a->dims * n) == 0;
    return ints && dims && !a->ints == !b->ints && !a->dims == !b->dims;
}

static bool same_attr(const Attr *a, const Attr *b)
{
    bool words = !a->word == !b->word && (!a->word || text_equal(a->word, b->word));
    return a->n == b->n && a->i == b->i && memcmp(&a->f, &b->f, sizeof a->f) == 0 && words &&
           same_lists(a, b);
}

bool op_is_alike(const Op *a, const Op *b)
{
    if (a->kind != b->kind || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs ||
        a->n_results != b->n_results || a->n_regions != b->n_regions) {
        return false;
    }
    for (int i = 0; i < a->n_attrs; i++) {
        const Attr *other = op_attr(b, a->attrs[i].key);
        if (!other || !same_attr(&a->attrs[i], other)) {
            return false;
        }
    }
    for (int i = 0; i < a->n_results; i++) {
        if (a->results[i]->type != b->results[i]->type) {
            return false;
        }
    }
    return true;
}

static bool same_blocks(const Pair *outer, const Block *a, const Block *b);

static bool same_ops(const Pair *pairs, const Op *a, const Op *b)
{
    if (!op_is_alike(a, b)) {
        return false;
    }
    for (int i = 0; i < a->n_operands; i++) {
        if (!same_value(pairs, a->operands[i], b->operands[i])) {
            return false;
        }
    }
    for (int i = 0; i < a->n_regions; i++) {
        if (!same_blocks(pairs, a->regions[i], b->regions[i])) {
            return false;
        }
    }
    return true;
}

static bool same_blocks(const Pair *outer, const Block *a, const Block *b)
{
    Pair pair = {outer, a, b};
    for (int i = 0; i < a->n_args && a->n_args == b->n_args; i++) {
        if (a->args[i]->type != b->args[i]->type) {
            return false;
        }
    }
    const Op *x = a->first, *y = b->first;
    while (x && y && same_ops(&pair, x, y)) {
        x = x->next;
        y = y->next;
    }
    return !x && !y && a->n_args == b->n_args;
}

bool op_is_same(const Op *a, const Op *b)
{
    return same_ops(NULL, a, b);
}
