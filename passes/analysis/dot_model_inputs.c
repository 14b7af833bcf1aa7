/* SPDX-License-Identifier: Apache-2.0 */
/* Derives the inputs of the cost model of dots from the IR: how many cache lines a row of an
 * operand takes, and which numbers of columns are aligned. */
#include "passes/analysis/dot_model_inputs.h"

#include "passes/analysis/access_width.h"

enum {
    LINE_BYTES =
        128,      /* of the second-level cache, and of a row of shared memory that is swizzled */
    COLUMNS = 32, /* of which rows of shared memory are made otherwise */
};

int product_lines(const Access *access)
{
    int bytes = dtype_bytes(access->memory->type->dtype);
    return an_row_divisor(access) * bytes % LINE_BYTES ? 2 : 1;
}

int64_t product_columns(bool contiguous, int bytes)
{
    return contiguous ? LINE_BYTES / bytes : COLUMNS;
}
