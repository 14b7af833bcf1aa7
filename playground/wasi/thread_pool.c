/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces runtime/device/thread_pool.c: the caller is the only thread. */
#include "runtime/device/thread_pool.h"

struct Pool {
    Allocator allocator;
};

int pool_cpus(void)
{
    return 1;
}

Pool *pool_new(Allocator allocator, int threads)
{
    Pool *pool = allocator.alloc(allocator.user, sizeof *pool);
    (void)threads;
    if (pool) {
        pool->allocator = allocator;
    }
    return pool;
}

void pool_free(Pool *pool)
{
    if (pool) {
        pool->allocator.release(pool->allocator.user, pool);
    }
}

void pool_run(Pool *pool, PoolWork *work, void *const *args, int64_t blocks, int most)
{
    (void)pool, (void)most;
    work(args, 0, blocks);
}
