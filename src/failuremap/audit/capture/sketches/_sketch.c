/* Sketches of a tensor in one pass over it, with the sum of its squares along the way; sketch.py says what they are.

    M             the flattened whole tensor in rows of `width`; what is read is a run of it that starts in M's first row
    sums[c % 64]  += right[c] * (left[r] * M[r, c])

Sums over a few rows are float32, those over all of them float64. Optional: torch does the same where this was not
compiled, and wherever `read` refuses a tensor: it takes float32, one row after another, on the CPU. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) /* Clang, too */
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(x, ahead) __builtin_prefetch((const char *)((uintptr_t)(x) + sizeof(float) * (size_t)(ahead)))
#else
#define INLINE static inline
#define PREFETCH(x, ahead) ((void)(ahead))
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2
#define AVX2 __attribute__((target("avx2,fma")))
#endif

/* ROWS x COLUMNS numbers are summed in float32; two rows of so many columns stay in the first cache. LINE: of a cache. */
enum { SUMS = 64, ROWS = 64, COLUMNS = 2048, TOGETHER = 8, LINE = 16, LONG = 1 << 16 };

/* A tensor as DLPack describes it (version 0, the capsule "dltensor"). */
typedef struct {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Array;
enum { CPU = 1, FLOAT = 2 };

/* How tensors of one shape are read. */
typedef struct {
    Py_ssize_t ndim, size, width, first, left_count, right_count, taken, coordinate_count;
    int64_t *shape;
    float *left, *right; /* signs; without columns there are no sums */
    int64_t *at, *to;    /* sampled elements: their places in the tensor and among the coordinates */
} Plan;

typedef struct {
    float sums[COLUMNS], squares[COLUMNS];
} Columns;

/* Adds `count` columns of TOGETHER rows that lie `apart`. */
INLINE void add_together(float *restrict sums, float *restrict squares, const float *x, Py_ssize_t apart,
                         const float *signs, Py_ssize_t count, int measure) {
    for (Py_ssize_t i = 0; i < count; i++) {
        float sum = 0, square = 0;
        for (int k = 0; k < TOGETHER; k++) {
            float number = x[k * apart + i];
            sum += signs[k] * number;
            if (measure) square += number * number;
        }
        sums[i] += sum;
        if (measure) squares[i] += square;
    }
}

/* How far on is what is read next: a row, after the last of `high` ones the next block, in wide rows a little. */
INLINE Py_ssize_t ahead_of(Py_ssize_t stride, Py_ssize_t left, Py_ssize_t high) {
    if (stride > COLUMNS / 2) return COLUMNS / 8;
    return left > 1 ? stride : (ROWS + 1 - high) * stride;
}

/* Adds so many rows, TOGETHER at a time. They lie apart, in pages of their own: one processor waits for the memory of all
of them at once. It sees too little of each page to know what comes next; asked for it ahead, it reads a fifth faster. */
INLINE void add_rows(Columns *to, const float *x, Py_ssize_t stride, const float *left, Py_ssize_t rows,
                     Py_ssize_t count, int measure) {
    Py_ssize_t high = rows / TOGETHER, apart = high * stride;
    float signs[TOGETHER];
    for (Py_ssize_t r = 0; r < high; r++) {
        const float *row = x + r * stride;
        Py_ssize_t ahead = ahead_of(stride, high - r, high), i = 0;
        for (int k = 0; k < TOGETHER; k++) signs[k] = left[r + k * high];
        for (; i + LINE <= count; i += LINE) {
            for (int k = 0; k < TOGETHER; k++) PREFETCH(row + k * apart + i, ahead);
            add_together(to->sums + i, to->squares + i, row + i, apart, signs, LINE, measure);
        }
        add_together(to->sums + i, to->squares + i, row + i, apart, signs, count - i, measure);
    }
    for (Py_ssize_t r = high * TOGETHER; r < rows; r++) {
        const float *row = x + r * stride;
        for (Py_ssize_t i = 0; i < count; i++) {
            to->sums[i] += left[r] * row[i];
            if (measure) to->squares[i] += row[i] * row[i];
        }
    }
}

/* Adds what `count` columns sum up to, the first of which is `column`, to the sums; returns the squares' sum. */
INLINE double fold(const Columns *from, const float *right, Py_ssize_t column, Py_ssize_t count, double *sums,
                   int measure) {
    double squares[8] = {0}, square = 0;
    Py_ssize_t i = 0;
    if (column % SUMS == 0)
        for (; i + SUMS <= count; i += SUMS)
            for (int s = 0; s < SUMS; s++) sums[s] += (double)(right[i + s] * from->sums[i + s]);
    for (; i < count; i++) sums[(column + i) % SUMS] += (double)(right[i] * from->sums[i]);
    if (!measure) return 0;
    for (i = 0; i + 8 <= count; i += 8)
        for (int s = 0; s < 8; s++) squares[s] += from->squares[i + s];
    for (; i < count; i++) square += from->squares[i];
    for (int s = 0; s < 8; s++) square += squares[s];
    return square;
}

/* Adds `rows` rows of M from `row` on, `count` columns from `column` on; `x` is the first of their numbers. */
INLINE double add_block(const Plan *plan, const float *x, Py_ssize_t row, Py_ssize_t rows, Py_ssize_t column,
                        Py_ssize_t count, double *sums, int measure) {
    Columns columns;
    double square = 0;
    for (Py_ssize_t c = 0; c < count; c += COLUMNS) {
        Py_ssize_t wide = count - c < COLUMNS ? count - c : COLUMNS;
        for (Py_ssize_t r = 0; r < rows; r += ROWS) {
            Py_ssize_t high = rows - r < ROWS ? rows - r : ROWS;
            memset(columns.sums, 0, wide * sizeof *columns.sums);
            if (measure) memset(columns.squares, 0, wide * sizeof *columns.squares);
            add_rows(&columns, x + r * plan->width + c, plan->width, plan->left + row + r, high, wide, measure);
            square += fold(&columns, plan->right + column + c, column + c, wide, sums, measure);
        }
    }
    return square;
}

/* Adds the whole run: the end of a row, whole rows, the start of a row. */
INLINE double add_run(const Plan *plan, const float *x, double *sums, int measure) {
    Py_ssize_t width = plan->width, rest = plan->size, row = 0;
    double square = 0;
    if (plan->first) {
        Py_ssize_t head = width - plan->first < rest ? width - plan->first : rest;
        square += add_block(plan, x, 0, 1, plan->first, head, sums, measure);
        x += head, rest -= head, row = 1;
    }
    Py_ssize_t rows = rest / width, tail = rest % width;
    if (rows) square += add_block(plan, x, row, rows, 0, width, sums, measure);
    if (tail) square += add_block(plan, x + rows * width, row + rows, 1, 0, tail, sums, measure);
    return square;
}

typedef double (*AddRun)(const Plan *, const float *, double *, int);

static double add_portably(const Plan *plan, const float *x, double *sums, int measure) {
    return measure ? add_run(plan, x, sums, 1) : add_run(plan, x, sums, 0);
}

#ifdef HAS_AVX2
AVX2 static double add_avx2(const Plan *plan, const float *x, double *sums, int measure) {
    return measure ? add_run(plan, x, sums, 1) : add_run(plan, x, sums, 0);
}
#endif

/* The one that suits this processor; chosen when the module is loaded. */
static AddRun add_best = add_portably;

static void take(const Plan *plan, const float *x, float *out) {
    memset(out, 0, plan->coordinate_count * sizeof *out);
    for (Py_ssize_t i = 0; i < plan->taken; i++) out[plan->to[i]] = x[plan->at[i]];
}

/* Fills the coordinates and the sums; returns the sum of squares. */
static double fill(AddRun add, const Plan *plan, const float *x, float *out, int measure) {
    double sums[SUMS] = {0}, square = 0;
    take(plan, x, out);
    if (plan->width) {
        square = add(plan, x, sums, measure);
        for (int s = 0; s < SUMS; s++) out[plan->coordinate_count + s] = (float)sums[s];
    } else if (measure) {
        for (Py_ssize_t i = 0; i < plan->size; i++) square += (double)x[i] * x[i];
    }
    return square;
}

/* ---- what Python gives */

static void free_plan(Plan *plan) {
    free(plan->shape), free(plan->left), free(plan->right), free(plan->at), free(plan->to);
    free(plan);
}

static void drop(PyObject *capsule) { free_plan(PyCapsule_GetPointer(capsule, "failuremap.plan")); }

/* Copies an array of one kind of numbers; returns how many there are, -1 where it is another. */
static Py_ssize_t copied(PyObject *array, const char *formats, size_t size, void *into) {
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) return -1;
    const char *format = view.format ? view.format : "B";
    void *copy = NULL;
    if (strlen(format) != 1 || !strchr(formats, *format) || view.itemsize != (Py_ssize_t)size) {
        PyErr_Format(PyExc_ValueError, "a buffer has format '%s'; expected '%s'", format, formats);
    } else if (!(copy = malloc(view.len ? view.len : 1))) {
        PyErr_NoMemory();
    } else {
        memcpy(copy, view.buf, view.len);
        *(void **)into = copy;
    }
    Py_ssize_t count = copy ? view.len / (Py_ssize_t)size : -1;
    PyBuffer_Release(&view);
    return count;
}

/* Whether all that a plan reads and writes lies within its arrays. */
static int is_sound(const Plan *plan, Py_ssize_t to_count) {
    int sound = to_count == plan->taken && plan->coordinate_count >= 0 && plan->size >= 0;
    for (Py_ssize_t i = 0; sound && i < plan->taken; i++)
        sound = plan->at[i] >= 0 && plan->at[i] < plan->size && plan->to[i] >= 0 &&
                plan->to[i] < plan->coordinate_count;
    if (!plan->right_count) return sound && !plan->first;
    sound = sound && plan->first >= 0 && plan->first < plan->width && plan->size <= PY_SSIZE_T_MAX - 2 * plan->width;
    return sound && plan->left_count >= (plan->first + plan->size + plan->width - 1) / plan->width;
}

PyDoc_STRVAR(plan_doc,
             "plan(shape, first, left, right, at, to, coordinate_count)\n--\n\n"
             "Says how tensors of one shape are read. right has a sign for each column of M, none where there are no\n"
             "sums; left one for each row from that on in which the tensor starts, at the column first.");

static PyObject *make_plan(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *shape, *left, *right, *at, *to;
    Plan *plan = calloc(1, sizeof *plan);
    if (!plan) return PyErr_NoMemory();
    Py_ssize_t to_count = -1;
    int read = PyArg_ParseTuple(args, "OnOOOOn", &shape, &plan->first, &left, &right, &at, &to,
                                &plan->coordinate_count) &&
               (plan->ndim = copied(shape, "lq", sizeof(int64_t), &plan->shape)) >= 0 &&
               (plan->left_count = copied(left, "f", sizeof(float), &plan->left)) >= 0 &&
               (plan->width = plan->right_count = copied(right, "f", sizeof(float), &plan->right)) >= 0 &&
               (plan->taken = copied(at, "lq", sizeof(int64_t), &plan->at)) >= 0 &&
               (to_count = copied(to, "lq", sizeof(int64_t), &plan->to)) >= 0;
    plan->size = 1;
    for (Py_ssize_t d = 0; read && d < plan->ndim; d++) plan->size *= plan->shape[d];
    if (read && is_sound(plan, to_count)) return PyCapsule_New(plan, "failuremap.plan", drop);
    if (read) PyErr_SetString(PyExc_ValueError, "sizes do not agree");
    free_plan(plan);
    return NULL;
}

/* The tensor's numbers; NULL where it is of another kind or shape than the plan's. */
static const float *numbers_of(const Array *tensor, const Plan *plan) {
    if (tensor->device.type != CPU || tensor->dtype.code != FLOAT || tensor->dtype.bits != 32 ||
        tensor->dtype.lanes != 1 || tensor->ndim != plan->ndim)
        return NULL;
    int64_t stride = 1;
    for (Py_ssize_t d = plan->ndim - 1; d >= 0; d--) {
        int64_t count = plan->shape[d];
        if (tensor->shape[d] != count) return NULL;
        if (tensor->strides && count > 1 && plan->size && tensor->strides[d] != stride) return NULL;
        stride *= count;
    }
    static const float none = 0;
    if (!plan->size) return &none;
    const char *start = (const char *)tensor->data + tensor->byte_offset;
    return tensor->data && (uintptr_t)start % sizeof(float) == 0 ? (const float *)start : NULL;
}

enum { SAMPLE, READ, MEASURE };

/* Returns the numbers as bytes, with the sum of squares where it is asked for; None where the tensor is another. */
static PyObject *read_by(AddRun add, int what, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "%zd arguments; expected a plan and a tensor", count);
    const Plan *plan = PyCapsule_GetPointer(args[0], "failuremap.plan");
    const Array *tensor = plan ? PyCapsule_GetPointer(args[1], "dltensor") : NULL;
    if (!tensor) return NULL;
    const float *x = numbers_of(tensor, plan);
    if (!x) Py_RETURN_NONE;
    Py_ssize_t number_count = plan->coordinate_count + (what != SAMPLE && plan->width ? SUMS : 0);
    PyObject *numbers = PyBytes_FromStringAndSize(NULL, number_count * (Py_ssize_t)sizeof(float));
    if (!numbers) return NULL;
    float *out = (float *)PyBytes_AS_STRING(numbers);
    if (what == SAMPLE) {
        take(plan, x, out);
        return numbers;
    }
    PyThreadState *others = plan->size > LONG ? PyEval_SaveThread() : NULL;
    double square = fill(add, plan, x, out, what == MEASURE);
    if (others) PyEval_RestoreThread(others);
    return what == MEASURE ? Py_BuildValue("Nd", numbers, square) : numbers;
}

#define ENTRY(name, add, what)                                                             \
    static PyObject *name(PyObject *self, PyObject *const *args, Py_ssize_t count) {       \
        (void)self;                                                                        \
        return read_by(add, what, args, count);                                            \
    }
ENTRY(sample, NULL, SAMPLE)
ENTRY(read_best, add_best, READ)
ENTRY(measure_best, add_best, MEASURE)
ENTRY(read_portably, add_portably, READ)
ENTRY(measure_portably, add_portably, MEASURE)

PyDoc_STRVAR(read_doc,
             "read(plan, tensor)\n--\n\n"
             "Returns the float32 numbers of the sketch of a tensor, which is a DLPack capsule; None where it is none of\n"
             "the plan's.");
PyDoc_STRVAR(measure_doc,
             "measure(plan, tensor)\n--\n\nReturns what read returns together with the sum of the tensor's squares.");
PyDoc_STRVAR(sample_doc, "sample(plan, tensor)\n--\n\nReturns the coordinates alone, or None as read.");

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL
static PyMethodDef methods[] = {
    {"plan", make_plan, METH_VARARGS, plan_doc},
    {"sample", FAST(sample), sample_doc},
    {"read", FAST(read_best), read_doc},
    {"measure", FAST(measure_best), measure_doc},
    {"read_portably", FAST(read_portably), "read, as any processor can run it."},
    {"measure_portably", FAST(measure_portably), "measure, as any processor can run it."},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module) {
    (void)module;
#ifdef HAS_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) add_best = add_avx2;
#endif
    return 0;
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
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_sketch", NULL, 0, methods, slots, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__sketch(void) { return PyModuleDef_Init(&module); }
