/* SPDX-License-Identifier: Apache-2.0 */
/* The glossary of the page: its words, and what CUDA and Triton call them. The script shows an
 * entry where a word of the page is pointed at or has the focus. */
#include "runtime/explain/explain_html.h"

static const struct {
    const char *ours, *cuda, *triton, *meaning;
} TERMS[] = {
#define TERM(ours, cuda, triton, meaning) {ours, cuda, triton, meaning},
#include "runtime/explain/page_terms.def"
#undef TERM
};

/* "term-bank-conflict" */
static void term_id(const char *ours, Text *out)
{
    text_add(out, "term-");
    for (; *ours; ours++) {
        text_char(out, *ours == ' ' ? '-' : *ours);
    }
}

void html_terms(Text *out)
{
    text_add(out, "<h2 id=glossary>Words</h2>\n<p>What CUDA and Triton call it. In the text above, "
                  "dotted words lead here.</p>\n"
                  "<p><label>Word of CUDA, Triton or Tessera <input type=search id=word "
                  "autocomplete=off placeholder=\"num_stages\"></label> <output id=words-found>"
                  "</output></p>\n<div class=wide tabindex=0><table class=lines id=terms>"
                  "<tr><th>word<th>meaning<th>CUDA<th>Triton");
    for (size_t i = 0; i < sizeof TERMS / sizeof *TERMS; i++) {
        text_add(out, "\n<tr id=\"");
        term_id(TERMS[i].ours, out);
        text_add(out, "\"><th scope=row>");
        html_words(out, TERMS[i].ours);
        text_add(out, "<td>");
        html_words(out, TERMS[i].meaning);
        text_add(out, "<td>");
        html_words(out, TERMS[i].cuda);
        text_add(out, "<td>");
        html_words(out, TERMS[i].triton);
    }
    text_add(out, "</table></div>\n");
}
