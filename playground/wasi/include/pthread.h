/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, of which WASI has none: none can be started, and a lock has nobody to wait for. */
#ifndef TESSERA_PLAYGROUND_WASI_PTHREAD_H
#define TESSERA_PLAYGROUND_WASI_PTHREAD_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

#define PTHREAD_MUTEX_INITIALIZER {0}
#define PTHREAD_COND_INITIALIZER {0}

static inline int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                 void *(*run)(void *user), void *user)
{
    (void)thread, (void)attr, (void)run, (void)user;
    return EAGAIN;
}

static inline int pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    return ESRCH;
}

#define TESSERA_WASI_NOTHING(name, ...)                                                            \
    static inline int name(__VA_ARGS__)                                                            \
    {                                                                                              \
        return 0;                                                                                  \
    }
TESSERA_WASI_NOTHING(pthread_attr_init, pthread_attr_t *)
TESSERA_WASI_NOTHING(pthread_attr_destroy, pthread_attr_t *)
TESSERA_WASI_NOTHING(pthread_attr_setstacksize, pthread_attr_t *, size_t)
TESSERA_WASI_NOTHING(pthread_mutex_init, pthread_mutex_t *, const pthread_mutexattr_t *)
TESSERA_WASI_NOTHING(pthread_mutex_destroy, pthread_mutex_t *)
TESSERA_WASI_NOTHING(pthread_mutex_lock, pthread_mutex_t *)
TESSERA_WASI_NOTHING(pthread_mutex_unlock, pthread_mutex_t *)
TESSERA_WASI_NOTHING(pthread_cond_init, pthread_cond_t *, const pthread_condattr_t *)
TESSERA_WASI_NOTHING(pthread_cond_destroy, pthread_cond_t *)
TESSERA_WASI_NOTHING(pthread_cond_wait, pthread_cond_t *, pthread_mutex_t *)
TESSERA_WASI_NOTHING(pthread_cond_signal, pthread_cond_t *)
TESSERA_WASI_NOTHING(pthread_cond_broadcast, pthread_cond_t *)
TESSERA_WASI_NOTHING(pthread_sigmask, int, const sigset_t *, sigset_t *)
#undef TESSERA_WASI_NOTHING

#endif
