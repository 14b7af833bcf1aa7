/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch takes of a multiprocessor, what it asks of memory, and what to try next. */
#ifndef TESSERA_RUNTIME_EXPLAIN_RESOURCES_H
#define TESSERA_RUNTIME_EXPLAIN_RESOURCES_H

#include "runtime/explain/report.h"

void occupancy_make(const Report *report, LaunchReport *launch);
/* `sizes` by DimVar.id. */
void roofline_make(const Report *report, const int64_t *sizes, LaunchReport *launch);
/* product.c */
void product_make(const Report *report, LaunchReport *launch, int64_t tiles);
void advice_make(const Report *report, LaunchReport *launch);

#endif
