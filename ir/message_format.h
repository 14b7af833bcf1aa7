/* SPDX-License-Identifier: Apache-2.0 */
/* Formats messages of print and assert: {1} in a text stands for value 1, and {{ for a brace. */
#ifndef TESSERA_IR_MESSAGE_FORMAT_H
#define TESSERA_IR_MESSAGE_FORMAT_H

#include "ir/dtype.h"
#include "support/text.h"

union Scalar;

void say_text(Text *out, const char *text, int n, const DType *dtypes, const union Scalar *values);

#endif
