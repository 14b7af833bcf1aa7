/* SPDX-License-Identifier: Apache-2.0 */
/* unroll_loops: replaces a loop over whole arrays by its steps if each step needs the complete
 * result of the previous one.
 *
 *   %x = for 0, 5, %a {            %1 = dot %a, %w
 *     (%i, %y)                     %2 = dot %1, %w
 *     %z = dot %y, %w         →    …
 *     yield %z }                   %x = dot %4, %w
 *
 * The blocks of a launch do not wait for each other, so a single block would have to run such a
 * loop over all of its arrays. The steps of an unrolled loop are ordinary statements: they are
 * fused, tiled and launched one after another. Loops that each block can run for its own rows stay
 * loops, and so do loops of little work, which further launches would only delay. Requires the
 * tensor level; does nothing to loops whose number of steps is not known or is large. Changes no
 * bits but those that the schedule of the steps changes. */
#include "passes/fuse/fuse.h"

#include "ir/unroll.h"
#include "passes/pass.h"

enum {
    MAX_STEPS = 64,
    MAX_OPS = 2048,         /* of all copies: the time of compilation grows with them */
    MIN_ELEMENTS = 1 << 14, /* that a step makes: fewer, one block makes in a launch's time */
};

static void count_op(Op *op, void *user)
{
    (void)op;
    ++*(int64_t *)user;
}

/* The largest array that a step makes; of unknown sizes it is large. */
static int64_t largest_array(const Op *loop)
{
    int64_t most = 0;
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        for (int i = 0; i < op->n_results; i++) {
            int64_t elements = 1;
            Type type = op->results[i]->type;
            for (int k = 0; type_is_tile(type) && k < type->rank; k++) {
                int64_t extent = poly_most(type->dims[k]);
                elements = extent && elements > MIN_ELEMENTS / extent ? MIN_ELEMENTS
                                                                      : elements * extent;
            }
            most = elements > most ? elements : most;
        }
    }
    return most;
}

static bool should_unroll(Func *func, Op *loop)
{
    int64_t lo, ops = 0, steps = loop_known_steps(loop, &lo);
    if (steps < 0 || steps > MAX_STEPS || largest_array(loop) < MIN_ELEMENTS) {
        return false;
    }
    block_walk(loop->regions[0], count_op, &ops);
    return steps * ops <= MAX_OPS && fuse_steps_need_all(func, loop);
}

void pass_unroll_loops(Func *func)
{
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_FOR && should_unroll(func, op)) {
            Op *before = op->prev;
            loop_unroll(func, op, NULL, NULL);
            next = before ? before->next : func->body->first; /* loops of the steps, too */
        }
    }
}
