/* SPDX-License-Identifier: Apache-2.0 */
/* Loops with a known number of steps, as that many copies of their body. */
#ifndef TESSERA_IR_UNROLL_H
#define TESSERA_IR_UNROLL_H

#include "ir/build.h"

/* The number of steps of a loop that counts up one by one, from `lo` on; -1: it is not known. */
int64_t loop_known_steps(const Op *loop, int64_t *lo);

/* Is called for each copy of `body`, then for the loop's results, with what replaces values. */
typedef void UnrollFn(void *user, const CloneMap *map, const Block *body);

/* Replaces a loop whose number of steps is known by its steps. `copied` may be NULL. */
void loop_unroll(Func *func, Op *loop, UnrollFn *copied, void *user);

#endif
