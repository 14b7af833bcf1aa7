/* SPDX-License-Identifier: Apache-2.0 */
/* The source next to the code it becomes. Each line of a listing has the class l<source line>; the
 * page's script highlights all lines of a class. */
#include "runtime/explain/explain_html.h"

#include "passes/pass.h"

#include <string.h>

enum { MAX_LISTING = 640 * 1024, MAX_PAGE = 2400 * 1024 };

/* ---- the source ---- */

static bool is_linked(const Report *report, int line)
{
    const ReportInput *input = report->input;
    for (size_t i = 0; i < input->listings.n; i++) {
        const Listing *listing = &input->listings.items[i];
        for (int k = 0; k < listing->n; k++) {
            if (listing->lines[k] == line) {
                return true;
            }
        }
    }
    return false;
}

static void source(const Report *report, Text *out)
{
    const Source *from = &report->input->func->diags->sources.items[report->input->source];
    int line = 1;
    text_add(out, "<pre class=source tabindex=0 aria-label=source>");
    for (size_t at = 0; at < from->n; line++) {
        const char *end = memchr(from->text + at, '\n', from->n - at);
        size_t n = end ? (size_t)(end - from->text) - at : from->n - at;
        text_printf(out, "<span id=s%d", line);
        if (is_linked(report, line)) {
            text_printf(out, " class=l%d", line);
        }
        text_printf(out, "><a href=\"#s%d\">%d</a>", line, line);
        html_words_n(out, from->text + at, n);
        text_add(out, n ? "</span>" : " </span>");
        at += n + 1;
    }
    text_add(out, "</pre>\n");
}

/* ---- listings ---- */

static const char *doc_of(const char *name)
{
    size_t n;
    const Pass *rows = pass_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (text_equal(rows[i].name, name)) {
            return rows[i].doc;
        }
    }
    if (text_equal(name, "frontend")) {
        return "what the source says, as operations on whole tensors";
    }
    return text_equal(name, "LLVM") ? "after its optimizer" : "";
}

static void listing(const Listing *l, const char *of, size_t available, Text *out)
{
    if (l->unchanged) {
        return;
    }
    text_printf(out, "<details class=code id=\"%sat-", of);
    html_words(out, l->name);
    text_add(out, "\"><summary><b>");
    html_words(out, l->name);
    text_printf(out, "</b>%s<small>", *of ? " of the other schedule" : "");
    html_words(out, doc_of(l->name));
    text_add(out, "</small></summary><pre tabindex=0>");
    /* Adjacent lines of one source line share an element. */
    size_t most = available < MAX_LISTING ? available : MAX_LISTING;
    const char *at = l->text;
    size_t from = out->n;
    int open = 0, i = 0;
    for (; *at && out->n - from < most; i++) {
        const char *end = text_line_end(at);
        int line = i < l->n ? l->lines[i] : 0;
        if (line != open) {
            text_add(out, open ? "</span>" : "");
            if (line) {
                text_printf(out, "<span class=l%d>", line);
            }
        }
        html_words_n(out, at, (size_t)(end - at));
        int next = i + 1 < l->n ? l->lines[i + 1] : 0;
        text_add(out, *end && (!line || next == line) ? "\n" : "");
        open = line;
        at = *end ? end + 1 : end;
    }
    text_add(out, open ? "</span>" : "");
    if (*at) {
        text_printf(out, "\n… and %zu bytes more: tessera compile --emit", strlen(at));
    }
    text_add(out, "</pre></details>\n");
}

static void unchanged(const Listings *listings, Text *out)
{
    int n = 0;
    for (size_t i = 0; i < listings->n; i++) {
        if (listings->items[i].unchanged) {
            text_add(out, n++ ? ", " : "<p class=soft>Nothing to do for the passes ");
            html_words(out, listings->items[i].name);
        }
    }
    text_add(out, n ? ".</p>\n" : "");
}

static void add_listings(const Listings *listings, const char *of, Text *out)
{
    for (size_t i = 0; i < listings->n; i++) {
        size_t available = out->n < MAX_PAGE ? (MAX_PAGE - out->n) / 2 + 1024 : 1024;
        listing(&listings->items[i], of, available, out);
    }
}

/* The script compares the two listings that are chosen. */
static void differences(Text *out)
{
    text_add(out, "<h2 id=differences>Differences</h2>\n<p>Two of the listings side by side. "
                  "Values that only have another number count as equal.</p>\n"
                  "<noscript><p>The comparison is made by the page's script, which is off.</p>"
                  "</noscript>\n<p class=choice><label>from <select id=left></select></label> "
                  "<label>to <select id=right></select></label> "
                  "<button id=before>step before</button> <button id=after>step after</button>"
                  " <output id=changed></output></p>\n"
                  "<div class=wide tabindex=0><table id=diff class=diff></table></div>\n");
}

void html_code(const Report *report, Text *out)
{
    const Listings *listings = &report->input->listings;
    text_add(out, "<h2 id=code>From the source to the machine</h2>\n"
                  "<p>The program after each pass that changed it, then as LLVM and the assembler "
                  "see it. Point at a line to see where it comes from and what becomes of it; a "
                  "click keeps it. <button data-fold=open data-of=stages>open all</button> "
                  "<button data-fold=close data-of=stages>close all</button></p>\n"
                  "<div class=panes>");
    source(report, out);
    text_add(out, "<div id=stages>\n");
    unchanged(listings, out);
    add_listings(listings, "", out);
    if (report->other) {
        text_add(out, "<h3>Of the other schedule</h3>\n");
        add_listings(&report->other->input->listings, "other-", out);
    }
    text_add(out, "</div></div>\n");
    differences(out);
}
