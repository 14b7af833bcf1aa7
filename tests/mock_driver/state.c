/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of the mock drivers, and what makes their calls fail. In a separate library, where
 * no test can set `mock`, the environment does: MOCK_FAIL=7 fails the seventh call, 7+ that one
 * and all later calls; MOCK_ERROR is the error number, MOCK_DEVICES the number of devices,
 * MOCK_HANGS makes kernels never end, MOCK_WRONG makes all results wrong, MOCK_SWEEP makes only
 * some kernels fail (below), MOCK_MAJOR is the architecture (8: sm_80), MOCK_REPORT is a file that
 * gets "calls open" when the process ends by itself. */
#include "tests/mock_driver/mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Mock fresh(int fail_at)
{
    return (Mock){.fail_at = fail_at,
                  .error = MOCK_ERROR,
                  .n_devices = MOCK_DEVICES,
                  .major = 9,
                  .map_argument = -1,
                  .log_argument = -1,
                  .opened = MOCK_OPENED,
                  .device = MOCK_CALLERS};
}

Mock mock;

void mock_reset(int fail_at)
{
    mock = fresh(fail_at);
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* "hangs,faults,wrong,argument": so many of a hundred kernels, by the digest of their code, never
 * end, break the context, or write one bit wrong in what the argument of that index points to. Not
 * the first one that a process loads. */
static void begin_sweep(const char *text)
{
    char *end;
    for (int i = 0; text && i < 4; i++) {
        mock.sweep[i] = (int)strtol(text, &end, 10);
        text = *end == ',' ? end + 1 : NULL;
        mock.sweeps = true;
    }
}

/* Of a text, or of an ELF object, whose last part are its section headers. */
static size_t code_bytes(const char *code)
{
    uint64_t headers;
    uint16_t each, n;
    if (memcmp(code, "\177ELF", 4) != 0) {
        return strlen(code);
    }
    memcpy(&headers, code + 40, sizeof headers);
    memcpy(&each, code + 58, sizeof each);
    memcpy(&n, code + 60, sizeof n);
    return (size_t)headers + (size_t)each * n;
}

void *mock_open_code(const char *code)
{
    MockCode *made = mock_open(sizeof *made);
    uint64_t digest = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0, n = code_bytes(code); i < n; i++) {
        digest = (digest ^ (unsigned char)code[i]) * 1099511628211u;
    }
    *made = (MockCode){.digest = digest, .kind = MOCK_GOOD};
    digest = (digest ^ digest >> 32) * 0x9e3779b97f4a7c15u >> 20;
    made->digest = digest;
    for (int i = 0, most = 0; i < 3 && mock.sweeps && mock.loaded > 0; i++) {
        int nth = (int)(digest % 100);
        made->kind = nth >= most && nth < most + mock.sweep[i] ? (MockKind)(i + 1) : made->kind;
        most += mock.sweep[i];
    }
    mock.loaded++;
    return made;
}

void mock_run_code(const void *code, void **args)
{
    const MockCode *runs = code;
    unsigned char *bytes;
    if (!mock.sweeps) {
        return;
    }
    mock.hangs = runs->kind == MOCK_HANGING;
    mock.broken = mock.broken || runs->kind == MOCK_FAULTING;
    mock.milliseconds = 1 + (float)(runs->digest % 1000) / 1000;
    if (runs->kind == MOCK_LYING) {
        memcpy(&bytes, args[mock.sweep[3]], sizeof bytes);
        bytes[3] ^= 0x40; /* more than any bound allows */
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *fail = getenv("MOCK_FAIL");
    mock_reset(fail ? atoi(fail) : 0);
    mock.fail_on = fail && strchr(fail, '+');
    mock.error = (unsigned int)number_of("MOCK_ERROR", MOCK_ERROR);
    mock.n_devices = number_of("MOCK_DEVICES", MOCK_DEVICES);
    mock.opened = number_of("MOCK_OPENED", MOCK_OPENED);
    mock.hangs = number_of("MOCK_HANGS", 0) != 0;
    mock.wrong = number_of("MOCK_WRONG", 0) != 0;
    mock.major = number_of("MOCK_MAJOR", 9);
    begin_sweep(getenv("MOCK_SWEEP"));
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("MOCK_REPORT");
    FILE *file = path && mock.calls > 0 ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%d %d\n", mock.calls, mock.open);
        fclose(file);
    }
}

bool mock_fails(const char *name)
{
    int call = ++mock.calls;
    bool fails = mock.broken ||
                 (mock.fail_at > 0 && (mock.fail_on ? call >= mock.fail_at : call == mock.fail_at));
    if (fails && !mock.last[0]) {
        snprintf(mock.last, sizeof mock.last, "%s", name);
    }
    return fails;
}

void mock_want(bool good, const char *words)
{
    if (!good && !mock.last[0]) {
        fprintf(stderr, "mock driver: %s\n", words);
        abort();
    }
}

unsigned int mock_reach(int device, int peer)
{
    mock_want(device != peer, "a device that asks for access to itself");
    if (mock.captures && mock.capture != CU_CAPTURE_RELAXED) {
        return MOCK_UNSAFE;
    }
    return mock.reaches[device][peer]++ ? MOCK_ALREADY : 0;
}

void mock_note_copy(int to, int from)
{
    if (to != from) {
        bool is_near = mock.reaches[to][from] && mock.reaches[from][to];
        mock.near += is_near;
        mock.far += !is_near;
    }
}

void *mock_open(size_t bytes)
{
    mock.open++;
    return aligned_alloc(256, (bytes + 255) / 256 * 256);
}

void mock_close(void *handle)
{
    mock.open--;
    free(handle);
}

void mock_wait(void)
{
    while (mock.hangs && mock.launches > 0) {
        pause();
    }
}

/* The one kernel that a mock can do: out = in * 2 + 1, that `tessera doctor` tries. */
static void run_trial(void **args)
{
    enum { TRIAL = 1000 };
    float *in, *out;
    memcpy(&in, args[0], sizeof in);
    memcpy(&out, args[1], sizeof out);
    for (int i = 0; i < TRIAL; i++) {
        out[i] = in[i] * 2 + (mock.wrong ? 2 : 1);
    }
}

void mock_note_launch(unsigned int grid, unsigned int block, unsigned int shared, void **args)
{
    mock.launches++;
    mock.grid = grid;
    mock.block = block;
    mock.shared = shared;
    memcpy(&mock.first_argument, args[0], sizeof mock.first_argument);
    if (mock.map_argument >= 0) {
        memcpy(mock.map, args[mock.map_argument], sizeof mock.map);
    }
    if (strcmp(mock.function, "trial_0") == 0) {
        run_trial(args);
    }
    if (mock.log_argument >= 0) {
        int64_t *log;
        memcpy(&log, args[mock.log_argument], sizeof log);
        log[0] = 1;
        log[LOG_HEAD] = 0;
    }
}

const char *mock_error_name(unsigned int result)
{
    static char text[32];
    if (result == MOCK_ERROR) {
        return "MOCK_ERROR";
    }
    snprintf(text, sizeof text, "MOCK_ERROR_%u", result);
    return result < 1000 ? text : NULL;
}
