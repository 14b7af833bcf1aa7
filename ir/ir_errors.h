/* SPDX-License-Identifier: Apache-2.0 */
/* The codes of errors that passes and code generators report; the table is ir/ir_errors.def. */
#ifndef TESSERA_IR_IR_ERRORS_H
#define TESSERA_IR_IR_ERRORS_H

enum {
#define ERROR(id, code, title, explanation) ERR_##id = code,
#include "ir/ir_errors.def"
};

#endif
