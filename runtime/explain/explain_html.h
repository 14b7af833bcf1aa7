/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that write the parts of the HTML page. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_HTML_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_HTML_H

#include "runtime/explain/explain_report.h"

/* explain_page.html: styles, script, and marks where the title and the body go. */
extern const char explain_page[];

/* Escaped. */
void html_words(Text *out, const char *text);
void html_words_n(Text *out, const char *text, size_t n);

/* Source and listings (explain_html_code.c). */
void html_code(const Report *report, Text *out);
/* Who holds which element of a tile; a request of shared memory by banks; where buffers lie; the
 * roofline with all launches (explain_html_pictures.c). */
void html_tile(const Report *report, const TileReport *tile, Text *out);
void html_banks(const AccessReport *access, Text *out);
void html_buffers(const LaunchReport *launch, Text *out);
void html_roofline(const Report *report, Text *out);
/* What the predicted time consists of; the pipeline over its first steps; in which order the tiles
 * are computed (explain_html_timeline.c). Nothing where a launch has none. `of` follows the
 * heading: " of the other schedule". */
void html_course(const Report *report, const LaunchReport *launch, Text *out);
void html_timeline(const Report *report, const LaunchReport *launch, const char *of, Text *out);
void html_order(const Report *report, const LaunchReport *launch, const char *of, Text *out);
/* What two schedules decide and cost, side by side (explain_html_compare.c). */
void html_compare(const Report *left, const Report *right, Text *out);
/* The glossary (explain_html_terms.c). */
void html_terms(Text *out);

#endif
