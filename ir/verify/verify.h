/* SPDX-License-Identifier: Apache-2.0 */
/* Verification of a function. */
#ifndef TESSERA_IR_VERIFY_VERIFY_H
#define TESSERA_IR_VERIFY_VERIFY_H

#include "ir/ir.h"

/* Collects every failure into `out`, one line each; returns how many. Stage-aware. */
int verify_func(Func *func, Text *out);

#endif
