/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads that executes the blocks of a CPU launch. Threads take parts of the block
 * range until none is left; idle threads sleep, and a forked child starts its own pool. */
#define _GNU_SOURCE
#include "runtime/device/thread_pool.h"
#include "support/int_math.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, PARTS_A_THREAD = 8, STACK_BYTES = 16 << 20 };

static const int OF_THREADS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

typedef struct Team Team;

typedef struct Member {
    Team *team;
    pthread_t thread;
    pthread_cond_t wake; /* one per member, so that only the members needed wake up */
    bool due;            /* it is to take parts */
} Member;

/* The threads of one process. A forked child abandons its parent's team, whose lock may be held. */
struct Team {
    pthread_mutex_t lock;
    pthread_cond_t done;
    int working; /* members that have not finished */
    bool stop;
    pid_t owner;
    int n; /* members started */
    PoolWork *work;
    void *const *args;
    int64_t blocks, part;
    _Atomic int64_t next;
    Member members[];
};

struct Pool {
    Allocator allocator;
    int wanted;
    Team *team;
};

int pool_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return CPU_COUNT(&set);
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < MAX_THREADS ? (int)n : 1;
}

static void take_parts(Team *team)
{
    for (;;) {
        int64_t first = atomic_fetch_add(&team->next, team->part);
        if (first >= team->blocks) {
            return;
        }
        int64_t left = team->blocks - first;
        team->work(team->args, first, first + (left < team->part ? left : team->part));
    }
}

static void *thread_main(void *user)
{
    Member *member = user;
    Team *team = member->team;
    pthread_mutex_lock(&team->lock);
    for (;;) {
        while (!member->due && !team->stop) {
            pthread_cond_wait(&member->wake, &team->lock);
        }
        if (team->stop) {
            break;
        }
        member->due = false;
        pthread_mutex_unlock(&team->lock);
        take_parts(team);
        pthread_mutex_lock(&team->lock);
        if (--team->working == 0) {
            pthread_cond_signal(&team->done);
        }
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Starts the threads with all signals blocked, so that the program's own threads handle them; only
 * faults of a thread's own code are delivered to it. */
static void start_threads(Team *team, int wanted)
{
    sigset_t all, before;
    pthread_attr_t attr;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof OF_THREADS / sizeof *OF_THREADS; i++) {
        sigdelset(&all, OF_THREADS[i]);
    }
    if (pthread_attr_init(&attr) != 0) {
        return;
    }
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team->n < wanted) {
        Member *member = &team->members[team->n];
        member->team = team;
        pthread_cond_init(&member->wake, NULL);
        if (pthread_create(&member->thread, &attr, thread_main, member) != 0) {
            pthread_cond_destroy(&member->wake);
            break;
        }
        team->n++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

static Team *team_new(Allocator allocator, int wanted)
{
    size_t bytes = sizeof(Team) + (size_t)wanted * sizeof(Member);
    Team *team = allocator.alloc(allocator.user, bytes);
    if (!team) {
        return NULL;
    }
    memset(team, 0, bytes);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->done, NULL);
    team->owner = getpid();
    start_threads(team, wanted);
    return team;
}

Pool *pool_new(Allocator allocator, int threads)
{
    Pool *pool = allocator.alloc(allocator.user, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    int wanted = (int)clamp_i64(threads, 1, MAX_THREADS);
    *pool = (Pool){allocator, wanted - 1, NULL};
    return pool;
}

void pool_free(Pool *pool)
{
    Allocator allocator = pool->allocator;
    if (pool->team && pool->team->owner == getpid()) {
        /* The team's threads end before its memory is freed. */
        Team *team = pool->team;
        pthread_mutex_lock(&team->lock);
        team->stop = true;
        for (int i = 0; i < team->n; i++) {
            pthread_cond_signal(&team->members[i].wake);
        }
        pthread_mutex_unlock(&team->lock);
        for (int i = 0; i < team->n; i++) {
            pthread_join(team->members[i].thread, NULL);
            pthread_cond_destroy(&team->members[i].wake);
        }
        pthread_cond_destroy(&team->done);
        pthread_mutex_destroy(&team->lock);
        allocator.release(allocator.user, team);
    } else if (pool->team) {
        allocator.release(allocator.user, pool->team); /* its threads exist only in the parent */
    }
    allocator.release(allocator.user, pool);
}

/* The team of this process; NULL if the pool has one thread or memory is exhausted. */
static Team *team_of(Pool *pool)
{
    if (pool->wanted == 0) {
        return NULL;
    }
    if (!pool->team || pool->team->owner != getpid()) {
        Team *left = pool->team;
        pool->team = team_new(pool->allocator, pool->wanted);
        if (left) {
            pool->allocator.release(pool->allocator.user, left);
        }
    }
    return pool->team;
}

void pool_run(Pool *pool, PoolWork *work, void *const *args, int64_t blocks, int most)
{
    Team *team = blocks > 1 && most != 1 ? team_of(pool) : NULL;
    /* The caller takes parts, too; no more members are woken than there are blocks for. */
    int n = team ? (int)min_i64(blocks - 1, team->n) : 0;
    n = most > 0 && most - 1 < n ? most - 1 : n;
    if (n == 0) {
        work(args, 0, blocks);
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->args = args;
    team->blocks = blocks;
    int64_t parts = (int64_t)(n + 1) * PARTS_A_THREAD;
    team->part = blocks / parts + (blocks % parts != 0);
    atomic_store(&team->next, 0);
    team->working = n;
    for (int i = 0; i < n; i++) {
        team->members[i].due = true;
        pthread_cond_signal(&team->members[i].wake);
    }
    pthread_mutex_unlock(&team->lock);
    take_parts(team);
    pthread_mutex_lock(&team->lock);
    while (team->working > 0) {
        pthread_cond_wait(&team->done, &team->lock);
    }
    pthread_mutex_unlock(&team->lock);
}
