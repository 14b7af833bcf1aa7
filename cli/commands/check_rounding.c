/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how far results are from the f64 reference, in units in the last place of the result's
 * type. */
#include "cli/commands/cmd_check.h"

#include <math.h>

static const struct {
    TesseraType type;
    int mantissa, least;
} FLOATS[] = {
    {TESSERA_F64, 52, -1022}, {TESSERA_F32, 23, -126}, {TESSERA_F16, 10, -14},
    {TESSERA_BF16, 7, -126},  {TESSERA_F8E4M3, 3, -6}, {TESSERA_F8E5M2, 2, -14},
};

/* The unit in the last place of the type at that value; 0 for a type that is no float. */
static double unit_of(TesseraType type, double value)
{
    for (size_t i = 0; i < sizeof FLOATS / sizeof *FLOATS; i++) {
        if (FLOATS[i].type == type) {
            int exponent;
            frexp(value, &exponent);
            bool normal = value != 0 && exponent > FLOATS[i].least;
            exponent = normal ? exponent - 1 : FLOATS[i].least;
            return ldexp(1, exponent - FLOATS[i].mantissa);
        }
    }
    return 0;
}

void rounding_add(Rounding *rounding, TesseraType type, size_t n, const void *got,
                  const double *exact)
{
    double largest = 0, farthest = 0;
    for (size_t i = 0; i < n; i++) {
        double value = tessera_get(type, got, i), unit = unit_of(type, exact[i]);
        double distance = fabs(value - exact[i]);
        if (unit == 0 || !isfinite(exact[i]) || isnan(distance)) {
            continue;
        }
        rounding->any = true;
        largest = fabs(exact[i]) > largest ? fabs(exact[i]) : largest;
        farthest = distance > farthest ? distance : farthest;
        if (distance / unit > rounding->ulps) {
            rounding->ulps = distance / unit;
            rounding->got = value;
            rounding->exact = exact[i];
        }
    }
    double share = largest > 0 ? farthest / largest : 0;
    rounding->share = share > rounding->share ? share : rounding->share;
}
