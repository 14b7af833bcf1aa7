/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/explain/report.h"

void report_html(const Report *report, Text *out)
{
    report_json(report, out);
}
