/* SPDX-License-Identifier: Apache-2.0 */
/* Axes of a contraction that become one axis (collapse_axes.c, collapse_intermediates.c). */
#ifndef TESSERA_PASSES_TENSOR_COLLAPSE_AXES_H
#define TESSERA_PASSES_TENSOR_COLLAPSE_AXES_H

#include "ir/ir.h"

/* Collapses adjacent row axes, and adjacent column axes, of the products that the stored value is
 * made of. Returns the store that takes the place of `store`; NULL: nothing changed. */
Op *collapse_axes_of(Func *func, Op *store);
/* The same of a scatter whose value has `rank` axes; returns the scatter that there is then. */
Op *collapse_scatter_axes_of(Func *func, Op *scatter, int rank);

#endif
