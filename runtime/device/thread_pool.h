/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads that share a loop over blocks. A forked child has none of its parent's
 * threads: the pool detects this and starts its own. */
#ifndef TESSERA_RUNTIME_DEVICE_THREAD_POOL_H
#define TESSERA_RUNTIME_DEVICE_THREAD_POOL_H

#include "support/arena.h"

#include <stdint.h>

typedef struct Pool Pool;
typedef void PoolWork(void *const *args, int64_t first, int64_t last);

/* CPUs that this process may use. */
int pool_cpus(void);
/* NULL: out of memory. The caller is one of the threads; fewer start when the system has no
 * more. */
Pool *pool_new(Allocator allocator, int threads);
void pool_free(Pool *pool);
/* Calls `work` for parts of [0, blocks), on all threads, or `most` of them (0: all), until all is
 * done. */
void pool_run(Pool *pool, PoolWork *work, void *const *args, int64_t blocks, int most);

#endif
