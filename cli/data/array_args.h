/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of a kernel, in host memory and on a device. */
#ifndef TESSERA_CLI_DATA_ARRAY_ARGS_H
#define TESSERA_CLI_DATA_ARRAY_ARGS_H

#include "cli/options.h"
#include "cli/session.h"

#include <stdio.h>
#include <tessera/tessera.h>

/* Reads a file as it is stored, with strides (of the session's memory) for Fortran order; 0, or an
 * exit code after a message. `wanted` is the parameter's type, or NO_TYPE, for files whose type
 * NumPy cannot name: bytes are f8e4m3, or packed for i4 and u4. */
enum { NO_TYPE = -1 };
int npy_read(const char *path, int wanted, TesseraTensor *tensor);
int npy_write(const char *path, const TesseraTensor *tensor);

/* The slice in `FILE.npy[::2, 1:].T`, from `[` or `.T` on, or NULL. */
const char *slice_after(const char *text);
/* Restricts the tensor to the slice. */
int slice_apply(const char *text, TesseraTensor *tensor);

typedef struct Array {
    const TesseraParam *param; /* of the bound signature */
    TesseraTensor tensor;      /* in the host's memory */
    bool given;                /* by a file, or a scalar by its value */
    const char *from, *to;     /* files; of a scalar: its text */
    double number;
    int64_t integer;
    void *block;  /* the host memory that contains the tensor, */
    size_t bytes; /* its size */
    void *memory; /* its copy on the device */
} Array;

/* The strides of the tensor, given or those of a contiguous one. */
void strides_of_tensor(const TesseraTensor *tensor, int64_t *strides);
/* The elements in row-major order, to be freed. */
void *tensor_packed(const TesseraTensor *tensor);
/* Copies row-major elements back into the tensor. */
void tensor_spread(const TesseraTensor *tensor, void *packed);
/* Moves the array into memory with the strides of --strides (array_strides.c). */
int array_apply_strides(Array *array, const char *words, const TesseraOptions *compile);

/* Number of elements and bytes; false on overflow. */
bool tensor_bytes(const TesseraTensor *tensor, size_t *elements, size_t *bytes);
/* Fills the tensor from a seed: standard normal, for integers with standard deviation 4 and
 * rounded, for bool with equal probability. With `repeat`, a block of values is repeated. */
void tensor_random(TesseraTensor *tensor, uint64_t seed, const char *name, bool repeat);
/* "bf16[4, 8]" and a few of its values. */
void tensor_show(FILE *to, const TesseraTensor *tensor, bool values);
/* "bf16[4, 8]", and a line for each row of the last axis, as far as they are few. */
void tensor_show_rows(FILE *to, const TesseraTensor *tensor);

/* The parameters of the kernel with what the command line gives them. */
typedef struct Arrays {
    Array *items;
    size_t n;
    TesseraTensor *known; /* by parameter of the unbound signature, for inference */
    size_t n_files;       /* number of files read */
    bool random;          /* inputs that are not given are random */
    bool bench;           /* the values do not matter */
} Arrays;
/* Parses a scalar into number or integer; 0, or an exit code after a message. */
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
/* The address of the tensor in another block. */
void *array_moved(const Array *array, void *block);
int arrays_download(const Session *session, Arrays *arrays);
TesseraArg *arrays_args(const Arrays *arrays, bool on_device);
/* Adds the strides of the given arrays to the options of the compilation. */
void arrays_give_strides(const Arrays *arrays, TesseraOptions *compile);
void arrays_free(const Session *session, Arrays *arrays);

#endif
