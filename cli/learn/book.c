/* SPDX-License-Identifier: Apache-2.0 */
/* The course as one HTML page, which loads nothing: contents, then the lessons with their hints and
 * solutions folded away. */
#include "cli/learn/page.h"
#include "cli/cli_diagnostics.h"
#include "cli/progress.h"
#include "support/clock.h"

#include <string.h>

static void html_text(FILE *to, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '&': fputs("&amp;", to); break;
        case '"': fputs("&quot;", to); break;
        default: fputc(text[i], to);
        }
    }
}

static void html_words(FILE *to, const char *text)
{
    html_text(to, text, strlen(text));
}

/* ---- code ---- */

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_keyword(const char *text, size_t n)
{
    static const char words[] = " kernel fn schedule tune import let var const inout if else for "
                                "while break continue parallel assume return in by where on as "
                                "when and or not true false ";
    char word[24];
    snprintf(word, sizeof word, " %.*s ", (int)(n < 20 ? n : 20), text);
    return strstr(words, word) != NULL;
}

/* Comments and keywords of the language in their colours. */
static void html_code(FILE *to, const char *text)
{
    fputs("<pre tabindex=\"0\"><code>", to);
    while (*text) {
        size_t n = 1;
        const char *class = NULL;
        if (*text == '#') {
            n = strcspn(text, "\n");
            class = "c";
        } else if (in_name(*text)) {
            for (n = 0; in_name(text[n]); n++) {}
            class = is_keyword(text, n) ? "k" : NULL;
        }
        fprintf(to, class ? "<span class=\"%s\">" : "", class ? class : "");
        html_text(to, text, n);
        fputs(class ? "</span>" : "", to);
        text += n;
    }
    fputs("</code></pre>\n", to);
}

/* ---- pages ---- */

static void html_spans(FILE *to, const char *text)
{
    char mark;
    const char *part;
    size_t n;
    while (page_span(&text, &mark, &part, &n)) {
        const char *tag = mark == '`' ? "code" : mark == '*' ? "em" : NULL;
        fprintf(to, tag ? "<%s>" : "", tag ? tag : "");
        html_text(to, part, n);
        fprintf(to, tag ? "</%s>" : "", tag ? tag : "");
    }
}

void page_html(FILE *to, const char *text)
{
    static const char *const TAGS[] = {
        [PAGE_HEADING] = "h3", [PAGE_PARAGRAPH] = "p", [PAGE_ITEM] = "li"};
    PageBlock block;
    bool list = false;
    while (page_next(&text, &block)) {
        if (list != (block.kind == PAGE_ITEM)) {
            fputs(list ? "</ul>\n" : "<ul>\n", to);
            list = !list;
        }
        if (block.kind == PAGE_CODE) {
            html_code(to, block.text);
            continue;
        }
        fprintf(to, "<%s>", TAGS[block.kind]);
        html_spans(to, block.text);
        fprintf(to, "</%s>\n", TAGS[block.kind]);
    }
    fputs(list ? "</ul>\n" : "", to);
}

/* ---- the book ---- */

static void write_contents(FILE *to, const Lesson *lessons, size_t n)
{
    fputs("<nav aria-label=\"Contents\">\n", to);
    for (size_t i = 0; i < n; i++) {
        bool first = i == 0 || strcmp(lessons[i - 1].part, lessons[i].part) != 0;
        if (first) {
            fprintf(to, "%s<h3>", i ? "</ol>\n" : "");
            html_words(to, lessons[i].part);
            fprintf(to, "</h3>\n<ol start=\"%d\">\n", lesson_number(&lessons[i]));
        }
        fprintf(to, "<li><a href=\"#%s\">", lessons[i].folder);
        html_words(to, lessons[i].title);
        fputs("</a></li>\n", to);
    }
    fputs("</ol>\n</nav>\n", to);
}

static void write_folded(FILE *to, const char *title, const char *text, bool code)
{
    fprintf(to, "<details><summary>%s</summary>\n", title);
    if (code) {
        html_code(to, text);
    } else {
        page_html(to, text);
    }
    fputs("</details>\n", to);
}

static int write_lesson(FILE *to, const Lesson *lesson)
{
    char *text;
    int code = page_filled(lesson, &text);
    if (code != 0) {
        return code;
    }
    fprintf(to, "<section id=\"%s\">\n<h2>%d. ", lesson->folder, lesson_number(lesson));
    html_words(to, lesson->title);
    fputs("</h2>\n", to);
    page_html(to, strchr(text, '\n')); /* behind the title */
    fputs("<p class=\"soft\">The program to begin with:</p>\n", to);
    html_code(to, lesson_file(lesson, "start.tile"));
    for (size_t i = 0; i < lesson->hints.n; i++) {
        char title[48];
        snprintf(title, sizeof title, "Hint %zu", i + 1);
        write_folded(to, title, lesson->hints.items[i], false);
    }
    write_folded(to, "Solution", lesson_file(lesson, "solution.tile"), true);
    fputs("</section>\n", to);
    return 0;
}

int book_write(FILE *to, const Lesson *lessons, size_t n)
{
    static const char MARK[] = "<!--book-->";
    const char *mark = strstr(book_page, MARK);
    int code = 0;
    fwrite(book_page, 1, (size_t)(mark - book_page), to);
    write_contents(to, lessons, n);
    fputs("<main>\n", to);
    double began = clock_seconds();
    for (size_t i = 0; i < n && code == 0; i++) {
        progress_show("lesson", i, n, began);
        code = write_lesson(to, &lessons[i]);
    }
    progress_show("lesson", n, n, began);
    fputs("</main>\n", to);
    fputs(mark + sizeof MARK - 1, to);
    return code;
}
