/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of targets.def, once for each vector width that this machine may have. The facts stay
 * constant data, and detecting the machine only selects among them. */
#include "ir/target/target.h"

#include "support/host_cpu.h"
#include "support/text.h"

#define TARGET(name, family, triple, cpu, features, ...)                                           \
    {name, FAMILY_##family, triple, cpu, features, __VA_ARGS__},

#define NATIVE_VECTOR 16
static const struct Target ROWS_16[] = {
#include "ir/target/targets.def"
};
#undef NATIVE_VECTOR

#define NATIVE_VECTOR 32
static const struct Target ROWS_32[] = {
#include "ir/target/targets.def"
};
#undef NATIVE_VECTOR

#define NATIVE_VECTOR 64
static const struct Target ROWS_64[] = {
#include "ir/target/targets.def"
};
#undef NATIVE_VECTOR

const struct Target *target_rows(size_t *n)
{
    *n = sizeof ROWS_64 / sizeof *ROWS_64;
    int vector = host_vector_bytes();
    if (vector >= 64) {
        return ROWS_64;
    }
    return vector >= 32 ? ROWS_32 : ROWS_16;
}

int target_warps(const struct Target *target)
{
    return target->sm_threads / target->warp;
}

const struct Target *target_find(const char *name)
{
    size_t n;
    const struct Target *rows = target_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (text_equal(rows[i].name, name)) {
            return &rows[i];
        }
    }
    return NULL;
}
