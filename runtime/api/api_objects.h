/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the API share. */
#ifndef TESSERA_RUNTIME_API_API_OBJECTS_H
#define TESSERA_RUNTIME_API_API_OBJECTS_H

#include "runtime/compile/kernel_objects.h"
#include "runtime/context/compiler_context.h"

enum { MAX_SOURCE_MIB = 64, MAX_SOURCE = MAX_SOURCE_MIB << 20 };

/* ---- tasks (api_tasks.c) ---- */

typedef struct TaskGate TaskGate;
void tasks_free(TesseraContext *context);
/* What the task's context takes of the caller's, and, when it is done, the caller's of it: what
 * went wrong, and warnings. */
TesseraStatus context_like(TesseraContext *context, const TesseraContext *from);
void context_take_over(TesseraContext *context, TesseraContext *from);

/* ---- arguments (api_arguments.c) ---- */

bool signature_has_size(const TesseraSignature *signature, const char *name);
TesseraStatus args_check(TesseraContext *context, const TesseraSignature *signature,
                         const TesseraArg *args, size_t n);
/* What of the options is NULL and may not be; NULL: nothing. */
const char *options_null(const TesseraOptions *options);
/* Finds the kernel, too. */
TesseraStatus options_check(const TesseraProgram *program, const TesseraOptions *options,
                            const TesseraSignature **signature);
/* The same, and that there is a target. */
TesseraStatus options_suit_compiling(const TesseraProgram *program, const TesseraOptions *options,
                                     const TesseraSignature **signature);

void doctor_free(TesseraContext *context); /* api_doctor.c */

/* As it may stand in the source (api_kernel.c). */
const char *schedule_block(const Compilation *c, bool reasons);

#endif
