/* SPDX-License-Identifier: Apache-2.0 */
/* Hints of a report: changes that were tried, by compiling them and asking the model. */
#ifndef TESSERA_RUNTIME_API_API_HINTS_H
#define TESSERA_RUNTIME_API_API_HINTS_H

#include "runtime/compile/compilation.h"
#include "runtime/explain/explain_report.h"

/* Fills what a report of this compilation is made of: its plan, sizes and registers; `listed`: also
 * the code in all its forms. False after a diagnostic. explain_input.c */
bool explain_input(Compilation *c, bool listed, ReportInput *input, Plan *plan);

/* Tries the changes that the findings of a report call for, and adds those as hints by which the
 * model expects the launches to take less time. */
void hints_make(const Compilation *c, Report *report);

/* Adds the nominal vector, where sizes are not given, and the fact about one of them that would
 * change the plan to most effect. api_nominal.c */
void nominal_explain(Compilation *c, Report *report);

#endif
