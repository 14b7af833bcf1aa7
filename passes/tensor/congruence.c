/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic modulo the stride of a transposed convolution (gcd, inverse, residues), for
 * the passes that split or solve congruences of taps. */
#include "passes/tensor/congruence.h"

#include "support/int_math.h"

/* Euclid's algorithm, which carries along what `a` is multiplied by (Knuth, The Art of Computer
 * Programming 2, 4.5.2, algorithm X). */
int64_t congruence_inverse(int64_t a, int64_t m)
{
    int64_t rest = (a % m + m) % m, other = m, times = 1, next = 0;
    while (other) {
        int64_t quotient = rest / other, left = rest % other, less = times - quotient * next;
        rest = other;
        other = left;
        times = next;
        next = less;
    }
    return (times % m + m) % m;
}

int64_t congruence_number(Dim dim)
{
    int64_t least = poly_least(dim), divisor = poly_divisor(dim), most = poly_most(dim);
    least = least > 0 && divisor > 1 ? round_up(least, divisor) : least;
    return least == most ? most : -1;
}

Dim congruence_terms(Func *func, Dim of, int64_t by)
{
    int64_t number = congruence_number(of);
    if (number >= 0) {
        return poly_const(func, ceil_div(number, by));
    }
    if (by == 1) {
        return of;
    }
    Dim more = poly_add(func, of, poly_const(func, by - 1));
    return more ? poly_var(func, func_own_quotient(func, NULL, more, by)) : NULL;
}
