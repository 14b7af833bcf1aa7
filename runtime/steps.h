/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in which ranges are walked: a source names them (`by 128`), a schedule may choose others.
 * What is rounded once a step depends on them. */
#ifndef TESSERA_RUNTIME_STEPS_H
#define TESSERA_RUNTIME_STEPS_H

#include "runtime/runtime.h"

/* A kernel as the front end made it walks its ranges as it does on a target, by the schedule of
 * the compilation's options; unchanged where it does not compile there, which is not told here. */
void steps_as_on(Compilation *c, const char *target);

/* The chosen steps on which bits of `c`'s results may depend, as "j=128,k=64"; "" where there are
 * none. `source` is the same kernel as the front end made it. `folded`: by DimVar.id, along which
 * something is folded; steps of other parallel ranges only share work. */
const char *steps_words(const Compilation *c, const Func *source, const bool *folded);

#endif
