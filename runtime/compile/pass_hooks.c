/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks between passes for people who work on the compiler: they print the IR, stop after a pass,
 * skip a pass, measure the time of each pass, and record the IR for `explain`. */
#include "runtime/compile/compilation.h"
#include "runtime/context/compiler_context.h"

#include "ir/text/ir_text.h"
#include "passes/analysis/computations.h"
#include "passes/nest/nest_source.h"
#include "runtime/explain/explain_report.h"

static void say(const TesseraDebug *debug, const Text *text)
{
    if (debug->write) {
        debug->write(debug->user, text->data, text->n);
    }
}

/* Printing may be asked for by name, or because something changed. */
static void print_if_wanted(Compilation *c, const char *pass)
{
    const TesseraDebug *debug = &c->work->context->compiler->debug;
    bool named = debug->print_after &&
                 (text_equal(debug->print_after, pass) || text_equal(debug->print_after, "all"));
    if (!named && !debug->print_changed) {
        return;
    }
    Text ir = text_new(&c->work->arena);
    print_func(c->func, &ir);
    if (named || !c->before || !text_equal(c->before, ir.data)) {
        Text text = text_new(&c->work->arena);
        text_printf(&text, "; ---- after %s ----\n%s", pass, ir.data);
        say(&c->work->context->compiler->debug, &text);
    }
    c->before = ir.data;
}

/* Computations are facts about whole tensors: there are none once `tile` has run. */
static void print_computations(Compilation *c, const char *pass)
{
    const TesseraDebug *debug = &c->work->context->compiler->debug;
    const char *after = debug->print_after ? debug->print_after : "simplify";
    bool named = text_equal(after, pass) || text_equal(after, "all");
    if (debug->print_computations && named && c->func->level == LEVEL_TENSOR) {
        Text text = text_new(&c->work->arena);
        Computations all = an_computations(c->func, c->func->body);
        text_printf(&text, "; ---- computations after %s ----\n", pass);
        computations_print(&all, &text);
        say(debug, &text);
    }
}

static bool stops_here(const Compilation *c, const char *pass)
{
    const char *stop = c->work->context->compiler->debug.stop_after;
    return stop && text_equal(stop, pass);
}

void debug_report_time(void *user, const char *part, double seconds)
{
    Compilation *c = user;
    const TesseraDebug *debug = &c->work->context->compiler->debug;
    if (debug->time_passes) {
        Text text = text_new(&c->work->arena);
        text_printf(&text, "%-12s %9.3f ms\n", part, seconds * 1e3);
        say(debug, &text);
    }
}

void debug_report_phase(Compilation *c, const char *phase, double seconds)
{
    const TesseraDebug *debug = &c->work->context->compiler->debug;
    debug_report_time(c, phase, seconds);
    if (debug->count_work && c->func) {
        Text text = text_new(&c->work->arena);
        text_printf(&text, "%-12s %9llu ops\n", phase,
                    (unsigned long long)(c->func->visited - c->visited));
        say(debug, &text);
        c->visited = c->func->visited;
    }
}

void debug_report_retries(Compilation *c)
{
    const TesseraDebug *debug = &c->work->context->compiler->debug;
    if (debug->count_work) {
        Text text = text_new(&c->work->arena);
        text_printf(&text, "%-12s %9d\n", "retries", c->func->retries.n);
        say(debug, &text);
    }
}

/* ---- the IR after each pass, for `explain` ---- */

static int line_in(const Compilation *c, Span span)
{
    return span.source == c->source ? diag_source_loc(&c->work->diags, span).line : 0;
}

static void record(Compilation *c, const char *pass)
{
    if (!c->record) {
        return;
    }
    Arena *arena = &c->work->arena;
    Text text = text_new(arena);
    PrintSpans spans = {0};
    print_func_spans(c->func, &text, &spans);
    Listing listing = {.name = pass, .text = text.data, .n = (int)spans.n};
    listing.lines = ARENA_ARRAY(arena, int, spans.n);
    for (size_t i = 0; i < spans.n; i++) {
        listing.lines[i] = line_in(c, spans.items[i]);
    }
    for (size_t i = 0; i < c->record->n; i++) { /* tiles were chosen again */
        if (text_equal(c->record->items[i].name, pass)) {
            c->record->n = i;
        }
    }
    size_t n = c->record->n;
    listing.unchanged = n > 0 && text_equal(c->record->items[n - 1].text, text.data);
    ARENA_PUSH(arena, c->record, listing);
}

/* Tiles may be chosen again: the last ones count. */
static void record_nest(Compilation *c, const char *pass)
{
    if (c->nest && text_equal(pass, "tile")) {
        nest_source(c->func, c->options.n_sizes == 0, c->nest);
    }
}

/* ---- the hooks ---- */

static bool after_pass(void *user, const Pass *pass, Func *func, double seconds)
{
    Compilation *c = user;
    (void)func;
    debug_report_phase(c, pass->name, seconds);
    print_if_wanted(c, pass->name);
    print_computations(c, pass->name);
    record(c, pass->name);
    record_nest(c, pass->name);
    const atomic_bool *cancelled = c->work->context->compiler->cancelled;
    c->stopped = stops_here(c, pass->name) || (cancelled && atomic_load(cancelled));
    return !c->stopped;
}

static bool skip_pass(void *user, const Pass *pass)
{
    const Compilation *c = user;
    const TesseraDebug *debug = &c->work->context->compiler->debug;
    for (size_t i = 0; i < debug->n_skip; i++) {
        if (text_equal(debug->skip[i], pass->name)) {
            return true;
        }
    }
    return false;
}

PassHooks debug_hooks(Compilation *c)
{
    return (PassHooks){.user = c,
                       .after = after_pass,
                       .skip = skip_pass,
                       .verify = c->work->context->compiler->debug.verify};
}

bool debug_after_frontend(Compilation *c)
{
    print_if_wanted(c, "frontend");
    print_computations(c, "frontend");
    record(c, "frontend");
    c->func->marks_functions = c->nest != NULL;
    c->stopped = stops_here(c, "frontend");
    return !c->stopped;
}
