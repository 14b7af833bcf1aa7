/* SPDX-License-Identifier: Apache-2.0 */
/* What is derived fits. Shared memory and registers are known exactly only when layouts are, long
 * after `tile` has chosen: where they turn out too few, the passes from `tile` on run again on the
 * same statements with smaller tiles. What the user's own lines make too large is refused, and the
 * passes say which lines would fit. Private to passes. */
#ifndef TESSERA_PASSES_RETRY_SMALLER_TILES_H
#define TESSERA_PASSES_RETRY_SMALLER_TILES_H

#include "passes/pass.h"

/* Runs the passes from row `first` on; false as passes_run. */
typedef bool RetryFn(Func *func, const PassHooks *hooks, int first);
bool retry_run(Func *func, const PassHooks *hooks, int first, RetryFn *run);
/* This launch does not fit. Has it products? */
bool retry_request(Func *func, const Op *launch);

#endif
