/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a kernel, in host memory and on a device. */
#ifndef TESSERA_CLI_DATA_ARRAY_ARGS_H
#define TESSERA_CLI_DATA_ARRAY_ARGS_H

#include "cli/options.h"
#include "cli/session.h"

#include <stdio.h>
#include <tessera/tessera.h>

/* Data is taken as it lies in the file, with strides (kept) where that is Fortran order; 0 or an
 * exit code after a message. `wanted`, or NO_TYPE: the parameter's type,
 * where a file's does not tell it: bytes of no type are f8e4m3, or packed for i4 and u4. */
enum { NO_TYPE = -1 };
int npy_read(const char *path, int wanted, TesseraTensor *tensor);
int npy_write(const char *path, const TesseraTensor *tensor);

/* The part that `FILE.npy[::2, 1:].T` names, from `[` or `.T` on; NULL: none. */
const char *slice_after(const char *text);
/* Takes that part of the tensor. */
int slice_apply(const char *text, TesseraTensor *tensor);

typedef struct Array {
    const TesseraParam *param; /* of the bound signature */
    TesseraTensor tensor;      /* in the host's memory */
    bool given;                /* by a file or, a scalar, by its value */
    const char *from, *to;     /* files; of a scalar: its text */
    double number;
    int64_t integer;
    void *block;  /* the host's memory that the tensor lies in, */
    size_t bytes; /* so many of them */
    void *memory; /* the same on the device */
} Array;

/* Strides that it has, given or because it is contiguous. */
void strides_of_tensor(const TesseraTensor *tensor, int64_t *strides);
/* Its elements in row-major order, to be freed. */
void *tensor_packed(const TesseraTensor *tensor);
/* Back to where they lie. */
void tensor_spread(const TesseraTensor *tensor, void *packed);
/* Moves the array to where the words of --strides say (array_strides.c). */
int array_apply_strides(Array *array, const char *words, const TesseraOptions *compile);

/* Elements; false when there are more bytes than can be. */
bool tensor_bytes(const TesseraTensor *tensor, size_t *elements, size_t *bytes);
/* Standard normal (integers: of a standard deviation of 4, rounded; bool: a coin), from a seed.
 * With `repeat`, a block of it repeated. */
void tensor_random(TesseraTensor *tensor, uint64_t seed, const char *name, bool repeat);
/* "bf16[4, 8]" and a few of its values. */
void tensor_show(FILE *to, const TesseraTensor *tensor, bool values);

/* The parameters of the kernel with what the command line gives them. */
typedef struct Arrays {
    Array *items;
    size_t n;
    TesseraTensor *known; /* by parameter of the unbound signature, for inference */
    size_t n_files;       /* that were read */
    bool random;          /* what is not given may be made up */
    bool bench;           /* nobody looks at the values */
} Arrays;
/* Into number or integer; 0 or an exit code after a message. */
int scalar_read(const TesseraParam *param, const char *text, Array *array);
/* "f32  0.5" */
void scalar_show(FILE *to, const Array *array);
/* Reads the files and scalars that are given. */
int arrays_read(const Options *options, const Session *session, Arrays *arrays,
                Options *with_consts);
/* After compiling: shapes of all, memory for outputs, random inputs where none are given.
 * `scalars`: missing ones are 1, else an error. */
int arrays_complete(const Options *options, const Session *session, const TesseraOptions *compile,
                    bool bench, Arrays *arrays);
/* On the session's device; for the host's interpreter the memory is the arrays' own. */
int arrays_upload(const Session *session, Arrays *arrays, bool copy);
/* Where the tensor begins in another block. */
void *array_moved(const Array *array, void *block);
int arrays_download(const Session *session, Arrays *arrays);
TesseraArg *arrays_args(const Arrays *arrays, bool on_device);
/* What compiling may know of how the arrays that are given lie. */
void arrays_lie(const Arrays *arrays, TesseraOptions *compile);
void arrays_free(const Session *session, Arrays *arrays);

#endif
