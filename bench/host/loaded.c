/* SPDX-License-Identifier: Apache-2.0 */
/* loaded FILE SYMBOL: measures the time that the driver alone takes from the start of the process
 * until the code in a file can be launched, and to exit. This is a lower bound for `tessera run`.
 * bench/host.py builds and runs it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static char code[1 << 22];

int main(int argc, char **argv)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *function;
    FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
    int device, bad = !library || !file || fread(code, 1, sizeof code - 1, file) == 0;
    if (bad) {
        return 1;
    }
    int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*push)(void *);
    int (*load)(void **, const void *), (*find)(void **, void *, const char *), (*unload)(void *);
    int (*release)(int);
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&get = dlsym(library, "cuDeviceGet");
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&push = dlsym(library, "cuCtxPushCurrent_v2");
    *(void **)&load = dlsym(library, "cuModuleLoadData");
    *(void **)&find = dlsym(library, "cuModuleGetFunction");
    *(void **)&unload = dlsym(library, "cuModuleUnload");
    *(void **)&release = dlsym(library, "cuDevicePrimaryCtxRelease_v2");
    bad = init(0) || get(&device, 0) || retain(&context, device) || push(context) ||
          load(&module, code) || find(&function, module, argv[2]) || unload(module) ||
          release(device);
    fprintf(stderr, bad ? "loaded: the driver failed\n" : "");
    return bad;
}
