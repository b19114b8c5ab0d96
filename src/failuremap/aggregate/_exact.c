/* weighted_sum: float32 rows added up in float64 and rounded once, block by block, with a certificate.

A block whose exponents lie within 29 bits of each other, less the bits of the weights' sum, adds up in float64 without
any rounding. In one without that certificate each rounding's error is kept (Knuth's TwoSum); where the errors' own sum
is rounded, too, the block is flagged and left to the caller. Optional: NumPy does the same where this was not compiled.
Compile without -ffast-math: it would take the errors for zeros. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

enum { MAX_BLOCK = 1024, SPARE_BITS = 29, NOT_FINITE = 255 };

/* Widens the range of exponents of a block by those of one row; zeros have none. */
FAST static void range_of(const float *row, Py_ssize_t size, uint32_t *highest, uint32_t *lowest) {
    uint32_t high = *highest, low = *lowest;
    for (Py_ssize_t i = 0; i < size; i++) {
        uint32_t bits;
        memcpy(&bits, row + i, 4);
        bits <<= 1; /* without the sign */
        high = bits > high ? bits : high;
        bits -= 1; /* zero becomes the largest */
        low = bits < low ? bits : low;
    }
    *highest = high;
    *lowest = low;
}

FAST static void add_row(double *total, const float *row, double weight, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; i++) total[i] += weight * (double)row[i];
}

FAST static void store(const double *total, float *out, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; i++) out[i] = (float)total[i];
}

/* Moves a value that is not exact to the neighbour with an odd last bit, unless it has one. */
static double to_odd(double near, double rest) {
    int64_t bits;
    memcpy(&bits, &near, 8);
    if (rest == 0 || (bits & 1)) return near;
    return nextafter(near, rest > 0 ? INFINITY : -INFINITY);
}

/* A second rounding misses only where the first gave a midpoint of two float32 numbers; there, the first is redone to
odd: a quotient that is not exact gets a last bit of 1. */
static void store_quotient(const double *total, double divisor, float *out, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; i++) {
        double quotient = total[i] / divisor;
        int64_t bits;
        memcpy(&bits, &quotient, 8);
        if ((bits & 0x1fffffff) == 0x10000000 || fabs(quotient) < 0x1p-125) {
            quotient = to_odd(quotient, fma(-quotient, divisor, total[i]));
        }
        out[i] = (float)quotient;
    }
}

/* Adds rows up with their errors; returns 1 where that does not settle every element. */
FAST static int sum_carefully(const float **rows, const double *weights, Py_ssize_t count, Py_ssize_t start,
                              double *total, double *error, Py_ssize_t width) {
    int unsettled = 0;
    memset(total, 0, width * sizeof *total);
    memset(error, 0, width * sizeof *error);
    for (Py_ssize_t k = 0; k < count; k++) {
        const float *row = rows[k] + start;
        for (Py_ssize_t i = 0; i < width; i++) {
            double a = total[i], b = weights[k] * (double)row[i];
            double s = a + b, shadow = s - a, t = (a - (s - shadow)) + (b - shadow);
            double e = error[i], f = e + t, echo = f - e, lost = (e - (f - echo)) + (t - echo);
            total[i] = s;
            error[i] = f;
            unsettled |= !(lost == 0); /* nan, too */
        }
    }
    return unsettled;
}

/* Rounds sum + error, which is exact, to float32; returns 1 where a quotient needs more than that. */
static int store_careful(const double *total, const double *error, double divisor, float *out, Py_ssize_t width) {
    for (Py_ssize_t i = 0; i < width; i++) {
        double near = total[i] + error[i], shadow = near - total[i];
        double rest = (total[i] - (near - shadow)) + (error[i] - shadow);
        if (divisor == 1) out[i] = (float)to_odd(near, rest);
        else if (rest != 0) return 1;
        else store_quotient(&near, divisor, out + i, 1);
    }
    return 0;
}

static void sum_all(const float **rows, const double *weights, Py_ssize_t count, double divisor, int spare, float *out,
                    Py_ssize_t size, uint8_t *uncertified, Py_ssize_t block) {
    double total[MAX_BLOCK], error[MAX_BLOCK];
    for (Py_ssize_t start = 0; start < size; start += block) {
        Py_ssize_t width = size - start < block ? size - start : block;
        uint32_t highest = 0, lowest = UINT32_MAX;
        memset(total, 0, width * sizeof *total);
        for (Py_ssize_t k = 0; k < count; k++) {
            range_of(rows[k] + start, width, &highest, &lowest);
            add_row(total, rows[k] + start, weights[k], width);
        }
        int top = highest >> 24, bottom = (uint32_t)(lowest + 1) >> 24;
        bottom = bottom < 1 ? 1 : bottom;
        int failed = highest && (top == NOT_FINITE || top - bottom > spare);
        if (failed) {
            failed = sum_carefully(rows, weights, count, start, total, error, width) ||
                     store_careful(total, error, divisor, out + start, width);
        } else if (divisor == 1) store(total, out + start, width);
        else store_quotient(total, divisor, out + start, width);
        uncertified[start / block] = (uint8_t)failed;
    }
}

static int bits_of(double total) {
    int exponent;
    frexp(total, &exponent);
    return exponent;
}

/* weighted_sum(rows, weights, divisor, out, uncertified, block) */
static PyObject *weighted_sum(PyObject *self, PyObject *args) {
    PyObject *rows, *weights;
    double divisor;
    Py_buffer out, flags;
    Py_ssize_t block;
    if (!PyArg_ParseTuple(args, "O!O!dw*w*n", &PyList_Type, &rows, &PyList_Type, &weights, &divisor, &out, &flags,
                          &block))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(rows), size = out.len / 4, held = 0;
    Py_buffer *views = PyMem_Calloc(count, sizeof *views);
    const float **data = PyMem_Calloc(count, sizeof *data);
    double *ks = PyMem_Calloc(count, sizeof *ks), total = 0;
    PyObject *result = NULL;
    if (!views || !data || !ks) {
        PyErr_NoMemory();
        goto done;
    }
    if (block < 1 || block > MAX_BLOCK || flags.len < (size + block - 1) / block || PyList_GET_SIZE(weights) != count) {
        PyErr_SetString(PyExc_ValueError, "sizes do not agree");
        goto done;
    }
    for (; held < count; held++) {
        if (PyObject_GetBuffer(PyList_GET_ITEM(rows, held), &views[held], PyBUF_C_CONTIGUOUS) < 0) goto done;
        data[held] = views[held].buf;
        ks[held] = PyFloat_AsDouble(PyList_GET_ITEM(weights, held));
        total += ks[held];
        if (PyErr_Occurred() || views[held].len != out.len) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "sizes do not agree");
            held++;
            goto done;
        }
    }
    Py_BEGIN_ALLOW_THREADS;
    sum_all(data, ks, count, divisor, SPARE_BITS - bits_of(total), out.buf, size, flags.buf, block);
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
done:
    while (held > 0) PyBuffer_Release(&views[--held]);
    PyMem_Free(views);
    PyMem_Free(data);
    PyMem_Free(ks);
    PyBuffer_Release(&out);
    PyBuffer_Release(&flags);
    return result;
}

static PyMethodDef methods[] = {{"weighted_sum", weighted_sum, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_exact", NULL, 0, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__exact(void) { return PyModuleDef_Init(&module); }
