/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose ops are long chains, from a thread whose stack is small: each is compiled to
 * machine code and interpreted. Walks over operands recurse as deep as the chain is long. */
#include "tests/runtime/harness.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

enum { STACK = 128 * 1024, TEXT = 1 << 20, SIDE = 3 };

/* The kernel f with parameters x and w: `head`, a line for each link with its number and the next,
 * `tail`, in which the last number may stand. */
typedef struct Chain {
    const char *head, *link, *tail;
    int links;
    const char *kernel; /* NULL: f */
} Chain;

#define VECTOR "kernel f(x: f32[N], w: f32[N]) -> y: f32[N] {\nlet a0 = x * w\n"
#define MATRIX "kernel f(x: f32[N, N], w: f32[N, N]) -> y: f32[N, N] {\nlet a0 = x\n"

static const Chain CHAINS[] = {
    {VECTOR, "let a%2$d = a%1$d * 0.5 + 1\n", "y = a%1$d }\n", 3000, NULL},
    {VECTOR, "let a%2$d = sin(a%1$d) * 0.5\n", "y = a%1$d }\n", 20, NULL},
    {VECTOR, "let a%2$d = (a%1$d + %1$d) * a%1$d\n", "y = a%1$d }\n", 1500, NULL},
    {VECTOR, "let a%2$d = where(a%1$d > %1$d, a%1$d * 0.5, x)\n", "y = a%1$d }\n", 1000, NULL},
    {VECTOR, "let a%2$d = a%1$d * 0.5 + a%1$d\n", "y = a%1$d }\n", 1000, "vjp(f)"},
    {"kernel f(x: f32[N], w: f32[N]) -> y: f32[N] {\nvar s = x * w\n",
     "if N > %1$d { s = s * 0.5 + x }\n", "y = s }\n", 500, NULL},
    {"kernel f(x: f32[N], w: f32[N]) -> y: f32[N] {\nparallel i in N {\nvar s = x[i] * w[i]\n",
     "if s > %1$d { s = s * 0.5 + x[i] }\n", "y[i] = s\n} }\n", 500, NULL},
    {"kernel f(x: f32[N], w: f32[N]) -> y: f32[N] {\nlet a0 = i32(x + w)\n",
     "let a%2$d = (a%1$d + %1$d) // 3\n", "y = f32(a%1$d) }\n", 500, NULL},
    {MATRIX, "let a%2$d = a%1$d - sum(a%1$d * w, axis=1)\n", "y = a%1$d }\n", 100, NULL},
    {MATRIX, "let a%2$d = a%1$d @ w\n", "y = a%1$d }\n", 15, NULL},
    {MATRIX, "let a%2$d = (a%1$d.T * w).T + 1\n", "y = a%1$d }\n", 1000, NULL},
    {MATRIX, "let a%2$d = flip(a%1$d, axis=0) * w\n", "y = a%1$d }\n", 200, NULL},
};

static char text[TEXT];
static size_t written;
static char said[1000]; /* what failed; "": nothing */

__attribute__((format(printf, 1, 0))) static void put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    written += (size_t)vsnprintf(text + written, TEXT - written, format, args);
    va_end(args);
}

static void write_chain(const Chain *chain)
{
    written = 0;
    put("%s", chain->head);
    for (int i = 0; i < chain->links; i++) {
        put(chain->link, i, i + 1);
    }
    put(chain->tail, chain->links);
}

static bool interpreted(const Chain *chain)
{
    static float in[2][SIDE * SIDE], out[SIDE * SIDE];
    int rank = strstr(chain->head, "N, N") ? 2 : 1;
    TesseraArg args[3];
    for (int i = 0; i < 3; i++) {
        args[i].tensor =
            (TesseraTensor){i < 2 ? in[i] : out, TESSERA_F32, rank, {SIDE, SIDE}, NULL};
    }
    return tessera_interpret(program, &(TesseraOptions){0}, args, 3) == TESSERA_OK;
}

static void compile_chain(const Chain *chain)
{
    static const char *const TARGETS[][2] = {
        {"sm_90a", "ptx"}, {"native", "obj"}, {"gfx942", "hsaco"}};
    write_chain(chain);
    bool good = tessera_program_parse(context, "<text>", text, written, &program) == TESSERA_OK &&
                (chain->kernel || interpreted(chain));
    for (int i = 0; good && i < 3; i++) {
        TesseraOptions options = {
            .kernel = chain->kernel, .target = TARGETS[i][0], .optimize = -1};
        TesseraBytes code;
        good = tessera_compile(program, &options, &kernel) == TESSERA_OK &&
               tessera_kernel_emit(kernel, TARGETS[i][1], &code) == TESSERA_OK;
        tessera_kernel_free(kernel);
        kernel = NULL;
    }
    if (!good) {
        snprintf(said, sizeof said, "%s: %s", chain->link, tessera_error(context)->message);
    }
    tessera_program_free(program);
    program = NULL;
}

static void *compile_in_thread(void *chain)
{
    compile_chain(chain);
    return NULL;
}

/* What nests in the text has a limit, and the parser reads as deep as that. */
static void *parse_nested(void *user)
{
    (void)user;
    written = 0;
    put("kernel f(x: f32[N]) -> f32[N] = ");
    memset(text + written, '(', TEXT / 4);
    written += TEXT / 4;
    put("x");
    memset(text + written, ')', TEXT / 4);
    written += TEXT / 4;
    put("\n");
    if (tessera_program_parse(context, "<text>", text, written, &program) != TESSERA_SOURCE ||
        !strstr(tessera_error(context)->message, "error[E0202]: nested too deeply")) {
        snprintf(said, sizeof said, "no E0202: %s", tessera_error(context)->message);
    }
    return NULL;
}

static void run_on_small_stack(void *(*run)(void *user), void *user)
{
    pthread_attr_t attr;
    pthread_t thread;
    said[0] = 0;
    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, STACK), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, run, user), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    ck_assert_msg(!said[0], "%s", said);
}

START_TEST(long_chains)
{
    run_on_small_stack(compile_in_thread, (void *)(uintptr_t)&CHAINS[_i]);
}
END_TEST

START_TEST(deep_nests)
{
    run_on_small_stack(parse_nested, NULL);
}
END_TEST

UNIT_TESTS(runtime_deep)
{
    TCase *tests = tcase_create("deep");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, long_chains, 0, sizeof CHAINS / sizeof *CHAINS);
    tcase_add_test(tests, deep_nests);
    return tests;
}
