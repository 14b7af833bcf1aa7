/* SPDX-License-Identifier: Apache-2.0 */
/* An NCCL for the mock drivers, whose device memory is the memory of the process. It sums within
 * groups, and ends the process on wrong calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

static struct {
    int n, open, pending;
    float *arrays[MOST];
    size_t count;
} state;

static void want(int good, const char *words)
{
    if (!good) {
        fprintf(stderr, "mock NCCL: %s\n", words);
        abort();
    }
}

int ncclCommInitAll(void **comms, int n, const int *devices)
{
    want(n > 0 && n <= MOST && state.n == 0, "communicators");
    for (int i = 0; i < n; i++) {
        want(devices[i] == i, "devices");
        comms[i] = &state.arrays[i];
    }
    state.n = n;
    return getenv("MOCK_NCCL") && strcmp(getenv("MOCK_NCCL"), "fails") == 0;
}

int ncclGroupStart(void)
{
    want(!state.open && !state.pending, "a group in a group");
    state.open = 1;
    return 0;
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm, void *stream)
{
    size_t rank = (size_t)((float **)comm - state.arrays);
    want(state.open && type == 7 && op == 0 && from == to && stream, "a sum");
    want(rank == (size_t)state.pending && (!rank || n == state.count), "ranks");
    state.arrays[rank] = to;
    state.count = n;
    state.pending++;
    return 0;
}

int ncclGroupEnd(void)
{
    want(state.open && state.pending == state.n, "a rank does not take part");
    for (size_t i = 0; i < state.count; i++) {
        float sum = 0;
        for (int rank = 0; rank < state.n; rank++) {
            sum += state.arrays[rank][i];
        }
        for (int rank = 0; rank < state.n; rank++) {
            state.arrays[rank][i] = sum;
        }
    }
    state.open = state.pending = 0;
    return 0;
}

int ncclCommDestroy(void *comm)
{
    want(comm != NULL && state.n-- > 0, "a communicator");
    return 0;
}
