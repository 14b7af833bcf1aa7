/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks between passes for people who work on the compiler: they print the IR, stop after a pass,
 * skip a pass, and measure the time of each pass. */
#include "runtime/api/api_objects.h"
#include "runtime/compile/compilation.h"

#include "ir/ir_errors.h"
#include "ir/text/ir_text.h"

static bool is_pass(const char *name)
{
    size_t n;
    const Pass *rows = pass_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (text_equal(rows[i].name, name)) {
            return true;
        }
    }
    return false;
}

static bool is_skippable(const char *name)
{
    size_t n;
    const Pass *rows = pass_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (text_equal(rows[i].name, name)) {
            return !rows[i].required;
        }
    }
    return false;
}

TesseraStatus tessera_debug(TesseraContext *context, const TesseraDebug *debug)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    if (!debug) {
        context->compiler->debug = (TesseraDebug){0};
        return TESSERA_OK;
    }
    const char *print = debug->print_after, *stop = debug->stop_after;
    if (print && !is_pass(print) && !text_equal(print, "all") && !text_equal(print, "frontend")) {
        return context_fail_code(context, TESSERA_USAGE, ERR_NO_PASS,
                                 "--print-after: no pass '%.100s'", print);
    }
    if (stop && !is_pass(stop) && !text_equal(stop, "frontend")) {
        return context_fail_code(context, TESSERA_USAGE, ERR_NO_PASS,
                                 "--stop-after: no pass '%.100s'", stop);
    }
    if (debug->trace && (debug->trace_rank < 0 || debug->trace_rank > TESSERA_MAX_RANK)) {
        return context_usage(context, "--trace: %d indices", debug->trace_rank);
    }
    for (size_t i = 0; i < debug->n_skip; i++) {
        if (!debug->skip || !debug->skip[i]) {
            return context_null(context, __func__, "a pass to skip");
        }
        if (!is_skippable(debug->skip[i])) {
            return context_fail_code(context, TESSERA_USAGE, ERR_NO_PASS, "--skip: %s '%.100s'",
                                     is_pass(debug->skip[i]) ? "the others need pass" : "no pass",
                                     debug->skip[i]);
        }
    }
    context->compiler->debug = *debug;
    return TESSERA_OK;
}

static void say(const TesseraDebug *debug, const Text *text)
{
    if (debug->write) {
        debug->write(debug->user, text->data, text->n);
    }
}

static void show(Compilation *c, const char *pass, const char *ir)
{
    Text text = text_new(&c->work->arena);
    text_printf(&text, "; ---- after %s ----\n%s", pass, ir);
    say(&c->work->context->compiler->debug, &text);
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
        show(c, pass, ir.data);
    }
    c->before = ir.data;
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

static bool after_pass(void *user, const Pass *pass, Func *func, double seconds)
{
    Compilation *c = user;
    (void)func;
    debug_report_phase(c, pass->name, seconds);
    print_if_wanted(c, pass->name);
    compilation_record(c, pass->name);
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
    compilation_record(c, "frontend");
    c->stopped = stops_here(c, "frontend");
    return !c->stopped;
}
