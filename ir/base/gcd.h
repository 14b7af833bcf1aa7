/* SPDX-License-Identifier: Apache-2.0 */
/* The greatest common divisor, never negative; 0 is divided by everything: gcd(0, n) = n. */
#ifndef TESSERA_IR_BASE_GCD_H
#define TESSERA_IR_BASE_GCD_H

#include <stdint.h>

static inline int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

#endif
