/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune --work ROLE:PARENT:TARGET`: the workers of a sweep. They read requests as lines on
 * standard input and answer on standard output. They end with their parent, or when it closes the
 * connection. */
#include "cli/data/array_args.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune_sweep.h"
#include "runtime/api/api_search.h"
#include "tune/sweep/worker_pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the role that compiles ---- */

static int compile_for(SweepWork *work)
{
    char *line = NULL;
    size_t capacity = 0;
    puts("hello");
    fflush(stdout);
    while (sweep_read(&line, &capacity)) {
        char *rest = line;
        const char *what = strsep(&rest, " "), *id = rest ? strsep(&rest, " ") : "0";
        if (strcmp(what, "weigh") == 0) {
            const char *lines = rest ? rest : "";
            TesseraPrediction p;
            TesseraKernel *kernel = sweep_compile(work, lines);
            if (!kernel) {
                printf("weighed %s %s %s\n", id, sweep_error_kind(work), sweep_error_text(work));
            } else if (tessera_kernel_predict(kernel, work->options->threads, &p) != TESSERA_OK) {
                printf("weighed %s %s %s\n", id, sweep_error_kind(work), sweep_error_text(work));
            } else if (!p.fits) {
                printf("weighed %s room %s\n", id, p.why);
            } else {
                char *one = copy_or_exit(p.lines, strlen(p.lines));
                for (char *at = one; *at; at++) {
                    *at = (char)(*at == '\n' ? ';' : *at);
                }
                printf("weighed %s ok %.9g %.9g %" PRIx64 " %" PRIx64 " %s %s\n", id, p.seconds,
                       p.roof, p.code, p.bits, *p.steps ? p.steps : "-", one);
                free(one);
            }
            tessera_kernel_free(kernel);
        } else if (strcmp(what, "make") == 0) {
            /* The code goes into the cache, where the measuring workers find it. */
            TesseraKernel *kernel = sweep_compile(work, (rest ? rest : ""));
            if (kernel && tessera_kernel_make(kernel) == TESSERA_OK) {
                printf("made %s\n", id);
            } else {
                printf("unmade %s %s %s\n", id, sweep_error_kind(work), sweep_error_text(work));
            }
            tessera_kernel_free(kernel);
        } else if (strcmp(what, "bound") == 0) {
            double cost = strtod(rest ? rest : "", &rest);
            sweep_bound(work, cost, rest + (*rest == ' '));
        }
        fflush(stdout);
    }
    free(line);
    return 0;
}

/* ---- beginning ---- */

static int open_work(SweepWork *work, bool measures)
{
    Session *s = &work->session;
    int code = session_open(work->options, s);
    timeout_end(); /* the parent has the clock */
    code = code ? code : arrays_read(work->options, s, &work->arrays, &work->with_consts);
    if (code == 0 && measures) {
        code = session_device(work->options, work->options->device, s);
    }
    code = code ? code : session_options(&work->with_consts, s, work->arrays.known, &work->compile);
    work->compile.pins = "";
    work->compile.target = strrchr(work->options->work, ':') + 1;
    arrays_give_strides(&work->arrays, &work->compile);
    return code;
}

int sweep_work(const Options *options)
{
    SweepWork work = {.options = options};
    const char *colon = strchr(options->work, ':');
    bool measures = strncmp(options->work, "measure", 7) == 0;
    /* The parent reports how a worker ended, so signals have their default action. */
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        signal(signals[i], SIG_DFL);
    }
    if (!colon || !worker_begin((pid_t)atoi(colon + 1))) {
        return TESSERA_USAGE;
    }
    int code = open_work(&work, measures);
    if (code == 0) {
        code = measures ? sweep_measure(&work) : compile_for(&work);
    }
    arrays_free(&work.session, &work.arrays);
    session_close(&work.session);
    return code;
}
