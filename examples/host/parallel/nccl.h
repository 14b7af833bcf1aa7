/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of the few NCCL functions that an all-reduce needs. The library is opened at run
 * time, so neither it nor its headers are needed to build. */
#ifndef NCCL_H
#define NCCL_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

enum { NCCL_FLOAT32 = 7, NCCL_SUM = 0 };

typedef struct Nccl {
    int (*init_all)(void **comms, int n, const int *devices);
    int (*all_reduce)(const void *from, void *to, size_t n, int type, int op, void *comm,
                      void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*destroy)(void *comm);
    void *comms[8];
    int n; /* of them; 0: it is not used */
} Nccl;

/* For devices 0 … n - 1. False where there is none: one device can do without. */
static inline bool nccl_open(Nccl *nccl, int n)
{
    static const int devices[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return false;
    }
    *(void **)&nccl->init_all = dlsym(library, "ncclCommInitAll");
    *(void **)&nccl->all_reduce = dlsym(library, "ncclAllReduce");
    *(void **)&nccl->group_start = dlsym(library, "ncclGroupStart");
    *(void **)&nccl->group_end = dlsym(library, "ncclGroupEnd");
    *(void **)&nccl->destroy = dlsym(library, "ncclCommDestroy");
    bool all =
        nccl->init_all && nccl->all_reduce && nccl->group_start && nccl->group_end && nccl->destroy;
    nccl->n = all && nccl->init_all(nccl->comms, n, devices) == 0 ? n : 0;
    return nccl->n > 0;
}

/* The arrays of all devices become their sum, in their streams. */
static inline bool nccl_sum(const Nccl *nccl, void **arrays, size_t n, void **streams)
{
    bool good = nccl->n == 0 || nccl->group_start() == 0;
    for (int i = 0; i < nccl->n; i++) {
        good = nccl->all_reduce(arrays[i], arrays[i], n, NCCL_FLOAT32, NCCL_SUM, nccl->comms[i],
                                streams[i]) == 0 &&
               good;
    }
    return (nccl->n == 0 || nccl->group_end() == 0) && good;
}

static inline void nccl_close(Nccl *nccl)
{
    for (int i = 0; i < nccl->n; i++) {
        nccl->destroy(nccl->comms[i]);
    }
    nccl->n = 0;
}

#endif
