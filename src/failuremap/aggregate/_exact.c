/* Weighted sums of float32 or float64 rows, rounded once, block by block; each block with a certificate, or flagged.

A block of float32 numbers whose exponents lie within `spare` bits of each other adds up in float64 without any
rounding. In one without that certificate, and in all of float64, each rounding's error is kept (Knuth's TwoSum); where
the errors' own sum is rounded, too, the block is flagged and left to the caller. Optional: NumPy does the same where
this was not compiled. Compile with -ffp-contract=off: a fused a + w * x has another error than the one computed here. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "errors of rounding are computed here: this needs float64 arithmetic as IEEE 754 defines it"
#endif

#if defined(__GNUC__) /* Clang, too */
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2
#define AVX2 __attribute__((target("avx2,fma")))
#include <immintrin.h>
#endif

enum { BLOCK = 1024, NOT_FINITE = 255 };
#define LARGE 0x1p900
#define SMALL 0x1p-900

typedef struct {
    const void **rows; /* of float or of double */
    double *weights;
    Py_ssize_t count;
    double divisor;
    int spare, from_doubles;
} Sum;

/* Widens the range of exponents of a block by those of one row; zeros have none. */
INLINE void range_of(const float *row, Py_ssize_t width, uint32_t *highest, uint32_t *lowest) {
    uint32_t high = *highest, low = *lowest;
    for (Py_ssize_t i = 0; i < width; i++) {
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

INLINE void add_row(double *total, const float *row, double weight, Py_ssize_t width) {
    for (Py_ssize_t i = 0; i < width; i++) total[i] += weight * (double)row[i];
}

/* Adds rows up, from `start` on, and returns whether that was exact. */
INLINE int sum_exactly(const Sum *sum, Py_ssize_t start, double *total, Py_ssize_t width) {
    uint32_t highest = 0, lowest = UINT32_MAX;
    memset(total, 0, width * sizeof *total);
    for (Py_ssize_t k = 0; k < sum->count; k++) {
        const float *row = (const float *)sum->rows[k] + start;
        range_of(row, width, &highest, &lowest);
        add_row(total, row, sum->weights[k], width);
    }
    int top = highest >> 24, bottom = (uint32_t)(lowest + 1) >> 24; /* denormals share the exponent of 1 */
    return !highest || (top != NOT_FINITE && top - (bottom < 1 ? 1 : bottom) <= sum->spare);
}

#ifdef HAS_AVX2
/* The same, with sums and ranges in registers; the ranges are those of single elements, which are much narrower. */
AVX2 static int sum_exactly_avx2(const Sum *sum, Py_ssize_t start, double *total, Py_ssize_t width) {
    enum { STEP = 16 };
    const __m256i one = _mm256_set1_epi32(1), ones = _mm256_set1_epi32(-1), spare = _mm256_set1_epi32(sum->spare),
                  finite = _mm256_set1_epi32(NOT_FINITE - 1);
    __m256i failed = _mm256_setzero_si256();
    Py_ssize_t i = 0;
    for (; i + STEP <= width; i += STEP) {
        __m256d total_4[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
        __m256i high_8[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, low_8[2] = {ones, ones};
        for (Py_ssize_t k = 0; k < sum->count; k++) {
            const float *row = (const float *)sum->rows[k] + start + i;
            __m256d weight = _mm256_set1_pd(sum->weights[k]);
            for (int j = 0; j < 4; j++) {
                __m256d wide = _mm256_cvtps_pd(_mm_loadu_ps(row + 4 * j));
                total_4[j] = _mm256_add_pd(total_4[j], _mm256_mul_pd(weight, wide));
            }
            for (int j = 0; j < 2; j++) {
                __m256i bits = _mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)(row + 8 * j)), 1);
                high_8[j] = _mm256_max_epu32(high_8[j], bits);
                low_8[j] = _mm256_min_epu32(low_8[j], _mm256_sub_epi32(bits, one));
            }
        }
        for (int j = 0; j < 4; j++) _mm256_storeu_pd(total + i + 4 * j, total_4[j]);
        for (int j = 0; j < 2; j++) {
            __m256i top = _mm256_srli_epi32(high_8[j], 24);
            __m256i bottom = _mm256_max_epu32(one, _mm256_srli_epi32(_mm256_add_epi32(low_8[j], one), 24));
            __m256i wide = _mm256_cmpgt_epi32(_mm256_sub_epi32(top, bottom), spare);
            failed = _mm256_or_si256(failed, _mm256_or_si256(wide, _mm256_cmpgt_epi32(top, finite)));
        }
    }
    return (i == width || sum_exactly(sum, start + i, total + i, width - i)) & _mm256_testz_si256(failed, failed);
}
#endif

typedef int (*SumExactly)(const Sum *, Py_ssize_t, double *, Py_ssize_t);

/* Adds rows up with their errors; returns whether the pairs total + error are exact. */
INLINE int sum_with_errors(const Sum *sum, Py_ssize_t start, double *total, double *error, Py_ssize_t width) {
    int unsettled = 0;
    memset(total, 0, width * sizeof *total);
    memset(error, 0, width * sizeof *error);
    for (Py_ssize_t k = 0; k < sum->count; k++) {
        const float *row = (const float *)sum->rows[k] + start;
        double weight = sum->weights[k];
        for (Py_ssize_t i = 0; i < width; i++) {
            double a = total[i], b = weight * (double)row[i];
            double s = a + b, shadow = s - a, t = (a - (s - shadow)) + (b - shadow);
            double e = error[i], f = e + t, echo = f - e, lost = (e - (f - echo)) + (t - echo);
            total[i] = s;
            error[i] = f;
            unsettled |= !(lost == 0); /* nan, too */
        }
    }
    return !unsettled;
}

/* The same for rows of double: a product, too, has an error; and what is very large or small is left to the caller, for
its errors may over- or underflow. */
INLINE int sum_wide_with_errors(const Sum *sum, Py_ssize_t start, double *total, double *error, Py_ssize_t width) {
    int unsettled = 0;
    memset(total, 0, width * sizeof *total);
    memset(error, 0, width * sizeof *error);
    for (Py_ssize_t k = 0; k < sum->count; k++) {
        const double *row = (const double *)sum->rows[k] + start;
        double weight = sum->weights[k];
        for (Py_ssize_t i = 0; i < width; i++) {
            double a = total[i], b = weight * row[i], p = fma(weight, row[i], -b), size = fabs(b);
            double s = a + b, shadow = s - a, t = (a - (s - shadow)) + (b - shadow);
            double e = error[i], f = e + t, echo = f - e, lost = (e - (f - echo)) + (t - echo);
            double g = f + p, echo_p = g - f, lost_p = (f - (g - echo_p)) + (p - echo_p);
            total[i] = s;
            error[i] = g;
            unsettled |= !(lost == 0) | !(lost_p == 0) | !(size < LARGE) | ((size < SMALL) & (row[i] != 0));
        }
    }
    return !unsettled;
}

/* Moves a value that is not exact to the neighbour with an odd last bit, unless it has one: a second rounding then
gives what one rounding of the exact value gives. `rest` has the sign of exact - near. */
INLINE double to_odd(double near, double rest) {
    uint64_t bits, rest_bits; /* written so that the loops below become vector code */
    memcpy(&bits, &near, 8);
    memcpy(&rest_bits, &rest, 8);
    uint64_t away_from_zero = 1 - 2 * ((bits ^ rest_bits) >> 63), step = rest != 0 ? away_from_zero : 0;
    bits += bits & 1 ? 0 : step;
    memcpy(&near, &bits, 8);
    return near;
}

INLINE void divide_to_odd(double *total, double divisor, Py_ssize_t width) {
    for (Py_ssize_t i = 0; i < width; i++) {
        double quotient = total[i] / divisor;
        total[i] = to_odd(quotient, fma(-quotient, divisor, total[i]));
    }
}

/* Divides the pairs total + error and rounds to odd; returns 0 where the quotient of the remainder, which is rounded
itself, does not tell on which side of the result the exact one lies. */
INLINE int divide_pairs_to_odd(double *total, const double *error, double divisor, Py_ssize_t width) {
    int doubtful = 0;
    for (Py_ssize_t i = 0; i < width; i++) {
        double near = total[i] + error[i], shadow = near - total[i];
        double rest = (total[i] - (near - shadow)) + (error[i] - shadow);
        double quotient = near / divisor, correction = (fma(-quotient, divisor, near) + rest) / divisor;
        double result = quotient + correction, echo = result - quotient;
        double left = (quotient - (result - echo)) + (correction - echo);
        doubtful |= (fabs(left) <= fabs(correction) * 0x1p-48) & (correction != 0);
        total[i] = to_odd(result, left);
    }
    return !doubtful;
}

/* Divides the pairs total + error and rounds to nearest; returns 0 where the remainder's quotient does not settle it. */
INLINE int divide_pairs(double *total, const double *error, double divisor, Py_ssize_t width) {
    int doubtful = 0;
    for (Py_ssize_t i = 0; i < width; i++) {
        double near = total[i] + error[i], shadow = near - total[i];
        double rest = (total[i] - (near - shadow)) + (error[i] - shadow);
        double quotient = near / divisor, correction = (fma(-quotient, divisor, near) + rest) / divisor;
        double result = quotient + correction, echo = result - quotient;
        double left = (quotient - (result - echo)) + (correction - echo);
        double more = result + left * (1 + 0x1p-48), less = result + left * (1 - 0x1p-48);
        doubtful |= (more != result) | (less != result) | ((fabs(quotient) < SMALL) & (near != 0));
        total[i] = result;
    }
    return !doubtful;
}

INLINE void store_narrow(const double *values, float *out, Py_ssize_t width) {
    for (Py_ssize_t i = 0; i < width; i++) out[i] = (float)values[i];
}

/* Fills `narrow` with the nearest numbers or, where it is NULL, `wide` with numbers rounded to odd; flags each block in
which it could not. Returns how many. */
INLINE Py_ssize_t fill_with(SumExactly sum_rows_exactly, const Sum *sum, float *narrow, double *wide, Py_ssize_t size,
                            uint8_t *flags) {
    double total[BLOCK], error[BLOCK];
    Py_ssize_t failed = 0;
    for (Py_ssize_t start = 0; start < size; start += BLOCK) {
        Py_ssize_t width = size - start < BLOCK ? size - start : BLOCK;
                int exact = sum_rows_exactly(sum, start, total, width);
        if (exact && sum->divisor != 1) {
            divide_to_odd(total, sum->divisor, width);
        } else if (!exact) {
            exact = sum_with_errors(sum, start, total, error, width) &&
                    divide_pairs_to_odd(total, error, sum->divisor, width);
        }
        if (!exact) failed++;
        else if (narrow) store_narrow(total, narrow + start, width);
        else memcpy(wide + start, total, width * sizeof *total);
        flags[start / BLOCK] = !exact;
    }
    return failed;
}

/* Fills `wide` with the nearest numbers, from rows of double. */
INLINE Py_ssize_t fill_wide(const Sum *sum, double *wide, Py_ssize_t size, uint8_t *flags) {
    double error[BLOCK];
    Py_ssize_t failed = 0;
    for (Py_ssize_t start = 0; start < size; start += BLOCK) {
        Py_ssize_t width = size - start < BLOCK ? size - start : BLOCK;
        double *total = wide + start;
        int exact = sum_wide_with_errors(sum, start, total, error, width) &&
                    divide_pairs(total, error, sum->divisor, width);
        failed += !exact;
        flags[start / BLOCK] = !exact;
    }
    return failed;
}

static Py_ssize_t fill_portably(const Sum *sum, float *narrow, double *wide, Py_ssize_t size, uint8_t *flags) {
    if (sum->from_doubles) return fill_wide(sum, wide, size, flags);
    return fill_with(sum_exactly, sum, narrow, wide, size, flags);
}

#ifdef HAS_AVX2
AVX2 static Py_ssize_t fill_avx2(const Sum *sum, float *narrow, double *wide, Py_ssize_t size, uint8_t *flags) {
    if (sum->from_doubles) return fill_wide(sum, wide, size, flags);
    return fill_with(sum_exactly_avx2, sum, narrow, wide, size, flags);
}
#endif

typedef Py_ssize_t (*Fill)(const Sum *, float *, double *, Py_ssize_t, uint8_t *);

/* The one that suits this processor; chosen when the module is loaded. */
static Fill fill_best = fill_portably;

/* Gets a flat, native view of one kind of numbers. */
static int view_of(PyObject *array, Py_buffer *view, const char *formats, int flags) {
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0) return -1;
    const char *format = view->format ? view->format : "B";
    int aligned = view->itemsize > 0 && (uintptr_t)view->buf % (size_t)view->itemsize == 0;
    if (strlen(format) == 1 && strchr(formats, *format) && aligned) return 0;
    PyErr_Format(PyExc_ValueError, "a buffer has format '%s'; expected '%s', aligned", format, formats);
    PyBuffer_Release(view);
    return -1;
}

/* Gets the rows' views and the weights; returns how many views are held, -1 - that where one is refused. */
static Py_ssize_t read_rows(PyObject *rows, PyObject *weights, Py_ssize_t size, Py_buffer *views, Sum *sum) {
    const char *formats = sum->from_doubles ? "d" : "f";
    for (Py_ssize_t k = 0; k < sum->count; k++) {
        sum->weights[k] = PyFloat_AsDouble(PyTuple_GetItem(weights, k));
        if (PyErr_Occurred() || view_of(PyTuple_GetItem(rows, k), &views[k], formats, 0) < 0) return -1 - k;
        sum->rows[k] = views[k].buf;
        if (views[k].len / views[k].itemsize != size) {
            PyErr_SetString(PyExc_ValueError, "sizes do not agree");
            return -2 - k;
        }
    }
    return sum->count;
}

static PyObject *sum_rows(Fill fill, PyObject *rows, PyObject *weights, Sum *sum, const Py_buffer *out,
                          uint8_t *flags) {
    Py_ssize_t size = out->len / out->itemsize, failed = 0;
    Py_buffer *views = PyMem_Calloc(sum->count, sizeof *views);
    sum->rows = PyMem_Calloc(sum->count, sizeof *sum->rows);
    sum->weights = PyMem_Calloc(sum->count, sizeof *sum->weights);
    PyObject *result = NULL;
    if (!views || !sum->rows || !sum->weights) {
        PyErr_NoMemory();
    } else {
        Py_ssize_t held = read_rows(rows, weights, size, views, sum);
        if (held >= 0) {
            int narrow = out->itemsize == sizeof(float);
            Py_BEGIN_ALLOW_THREADS;
            failed = fill(sum, narrow ? out->buf : NULL, out->buf, size, flags);
            Py_END_ALLOW_THREADS;
            result = PyLong_FromSsize_t(failed);
        }
        for (Py_ssize_t k = held < 0 ? -1 - held : held; k > 0; k--) PyBuffer_Release(&views[k - 1]);
    }
    PyMem_Free(views);
    PyMem_Free((void *)sum->rows);
    PyMem_Free(sum->weights);
    return result;
}

PyDoc_STRVAR(weighted_sum_doc,
             "weighted_sum(rows, weights, divisor, spare, out, flags)\n--\n\n"
             "Fills out with sum(weight * row) / divisor and returns how many blocks it could not fill.\n\n"
             "rows: tuple of float32 arrays; weights: tuple of numbers, whose products with the rows are exact in\n"
             "float64; spare: by how many exponents a block's numbers may differ; out: float32, or float64, which is\n"
             "rounded to odd; flags: a byte for each block, 1 where it could not be filled.\n"
             "With spare=-1 the rows are float64 arrays, weights any numbers, and out is float64, rounded to nearest.");

static PyObject *sum_by(Fill fill, PyObject *args) {
    PyObject *rows, *weights, *out_array, *flag_array, *result = NULL;
    Sum sum = {0};
    Py_buffer out, flags;
    if (!PyArg_ParseTuple(args, "O!O!diOO", &PyTuple_Type, &rows, &PyTuple_Type, &weights, &sum.divisor, &sum.spare,
                          &out_array, &flag_array))
        return NULL;
    sum.from_doubles = sum.spare < 0;
    if (view_of(out_array, &out, sum.from_doubles ? "d" : "fd", PyBUF_WRITABLE) < 0) return NULL;
    if (view_of(flag_array, &flags, "B", PyBUF_WRITABLE) == 0) {
        sum.count = PyTuple_Size(rows);
        Py_ssize_t block_count = (out.len / out.itemsize + BLOCK - 1) / BLOCK;
        if (flags.len != block_count || PyTuple_Size(weights) != sum.count || !(sum.divisor >= 1)) {
            PyErr_SetString(PyExc_ValueError, "sizes do not agree");
        } else {
            result = sum_rows(fill, rows, weights, &sum, &out, flags.buf);
        }
        PyBuffer_Release(&flags);
    }
    PyBuffer_Release(&out);
    return result;
}

static PyObject *weighted_sum(PyObject *self, PyObject *args) {
    (void)self;
    return sum_by(fill_best, args);
}

static PyObject *weighted_sum_portably(PyObject *self, PyObject *args) {
    (void)self;
    return sum_by(fill_portably, args);
}

static PyMethodDef methods[] = {
    {"weighted_sum", weighted_sum, METH_VARARGS, weighted_sum_doc},
    {"weighted_sum_portably", weighted_sum_portably, METH_VARARGS, "weighted_sum, as any processor can run it."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) fill_best = fill_avx2;
#endif
    return PyModule_AddIntConstant(module, "BLOCK", BLOCK);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, prepare},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_exact", NULL, 0, methods, slots, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__exact(void) { return PyModuleDef_Init(&module); }
