/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU time of this process, and the speed of the CPU: a test's time limit is the limit on the
 * machine where it was written, times machine_slowness(). */
#ifndef TESSERA_TESTS_SPEED_H
#define TESSERA_TESTS_SPEED_H

#include <stdint.h>
#include <time.h>

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* 1 on a core of a 2.6 GHz Xeon that nobody else uses, 2 where the same work takes twice the CPU's
 * time; never less than 1. The work is a compiler's: steps that wait for memory and for
 * branches. */
static double machine_slowness(void)
{
    enum { STEPS = 1 << 20, ENTRIES = 1 << 16 };
    static const double REFERENCE = 0.0075; /* seconds there, of an optimized build */
    static uint32_t table[ENTRIES];
    uint32_t state = 1;
    double start = cpu_seconds();
    for (int i = 0; i < STEPS; i++) {
        state = state * 1664525 + 1013904223;
        uint32_t *entry = &table[state >> 16];
        state ^= *entry & 1 ? *entry << 7 : *entry >> 9;
        *entry += state;
    }
    double took = (cpu_seconds() - start) / REFERENCE;
    return took > 1 ? took : 1;
}

#endif
