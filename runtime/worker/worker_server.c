/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side: it reads its request, compiles, and answers with a status and the code or the
 * error message. */
#include "runtime/api/api_objects.h"
#include "runtime/compile/worker_request.h"
#include "runtime/worker/compile_worker.h"
#include "support/fd_io.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_input(Arena *arena, char **bytes, size_t *n)
{
    size_t cap = 1 << 16;
    *n = 0;
    *bytes = arena_alloc(arena, cap);
    for (;;) {
        ssize_t got = read(STDIN_FILENO, *bytes + *n, cap - *n);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return got == 0;
        }
        *n += got > 0 ? (size_t)got : 0;
        if (*n == cap) {
            char *bigger = arena_alloc(arena, cap * 2);
            memcpy(bigger, *bytes, *n);
            *bytes = bigger;
            cap *= 2;
        }
    }
}

static int answer(TesseraStatus status, const char *bytes, size_t n)
{
    uint64_t head = (uint64_t)status;
    return fd_write(STDOUT_FILENO, &head, sizeof head) && fd_write(STDOUT_FILENO, bytes, n) ? 0 : 1;
}

static int answer_error(const TesseraContext *context)
{
    const TesseraError *error = tessera_error(context);
    return answer(error->status, error->message, strlen(error->message));
}

static int fulfil(TesseraContext *context, ErrorBoundary *work, const WorkerRequest *order)
{
    TesseraProgram program = {.work = {.context = context},
                              .name = order->name,
                              .text = order->text,
                              .n = (size_t)order->n,
                              .imports = *order->imports};
    TesseraKernel *kernel;
    tessera_cache_use(context, "off", 0); /* who asked has looked there */
    if (kernel_remake(context, &program, &order->options, &order->pinned, &kernel) != TESSERA_OK) {
        return answer_error(context);
    }
    int code = 0;
    if (kernel_make_code(kernel, (EmitKind)order->kind) != TESSERA_OK) {
        code = answer_error(context);
    } else {
        Text value = code_pack(&work->arena, &kernel->compilation.code, &kernel->compilation.plan);
        code = answer(TESSERA_OK, value.data, value.n);
    }
    tessera_kernel_free(kernel);
    return code;
}

typedef struct Serving {
    TesseraContext *context;
    ErrorBoundary work;
    int code;
} Serving;

static bool serve(void *user)
{
    Serving *serving = user;
    Arena *arena = &serving->work.arena;
    char *bytes;
    size_t n;
    WorkerRequest order;
    Text build = text_new(arena);
    if (!read_input(arena, &bytes, &n) || !worker_request_read(arena, bytes, n, &order) ||
        !build_id(&build) || !text_equal(build.data, order.build)) {
        static const char words[] = "the worker is of another build";
        serving->code = answer(TESSERA_ENVIRONMENT, words, strlen(words));
        return true;
    }
    serving->code = fulfil(serving->context, &serving->work, &order);
    return true;
}

int tessera_worker(int parent)
{
    Serving serving = {.code = 1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || tessera_context_new(NULL, &serving.context) != TESSERA_OK) {
        return 1;
    }
    work_init(&serving.work, serving.context);
    error_boundary_run(&serving.work, serve, NULL, &serving);
    work_free(&serving.work);
    tessera_context_free(serving.context);
    return serving.code;
}
