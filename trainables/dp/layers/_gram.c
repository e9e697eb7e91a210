/* Squared norms of sums of outer products, unit by unit (see gram.py): of both Grams only the lower
   half is computed, in tiles of 4 by 2 rows, and nothing is written but one number a unit. */
#include <math.h>
#include <stdint.h>

/* Norms need no equal bits everywhere, so products may be fused with sums here. */
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#define LANES 8
#define MOST_ROWS 96
#define TINY 1e-36

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline lanes at(const float *x) { return *(const loose *)x; }

static inline float sum(lanes x) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

/* out[t, s] += weight * x_t . x_s for s <= t; `x` [rows, width], `out` [rows, MOST_ROWS]. Numbers
   above the diagonal are left as they come. */
static void add_gram(const float *x, int64_t rows, int64_t width, float weight, float *out) {
    for (int64_t t = 0; t < rows; t += 4) {
        const float *a[4];
        int64_t nt = rows - t < 4 ? rows - t : 4;
        for (int64_t i = 0; i < 4; i++) a[i] = x + (t + (i < nt ? i : nt - 1)) * width;
        for (int64_t s = 0; s < t + nt; s += 2) {
            const float *b0 = x + s * width, *b1 = s + 1 < rows ? b0 + width : b0;
            lanes c00 = {0}, c10 = {0}, c20 = {0}, c30 = {0};
            lanes c01 = {0}, c11 = {0}, c21 = {0}, c31 = {0};
            int64_t k = 0;
            for (; k + LANES <= width; k += LANES) {
                lanes y0 = at(b0 + k), y1 = at(b1 + k), z;
                z = at(a[0] + k), c00 += z * y0, c01 += z * y1;
                z = at(a[1] + k), c10 += z * y0, c11 += z * y1;
                z = at(a[2] + k), c20 += z * y0, c21 += z * y1;
                z = at(a[3] + k), c30 += z * y0, c31 += z * y1;
            }
            float found[4][2] = {{sum(c00), sum(c01)}, {sum(c10), sum(c11)},
                                 {sum(c20), sum(c21)}, {sum(c30), sum(c31)}};
            for (; k < width; k++)
                for (int64_t i = 0; i < 4; i++)
                    found[i][0] += a[i][k] * b0[k], found[i][1] += a[i][k] * b1[k];
            for (int64_t i = 0; i < nt; i++) {
                out[(t + i) * MOST_ROWS + s] += weight * found[i][0];
                if (s + 1 < rows) out[(t + i) * MOST_ROWS + s + 1] += weight * found[i][1];
            }
        }
    }
}

/* The lower halves of the Grams of each unit's rows of `x`, row by row, one behind the other. */
void unit_grams(int64_t num_units, const int64_t *sizes, const float *x, int64_t width,
                float *out) {
    float gram[MOST_ROWS * MOST_ROWS];
    for (int64_t u = 0; u < num_units; u++) {
        int64_t rows = sizes[u];
        for (int64_t t = 0; t < rows; t++)
            for (int64_t s = 0; s < MOST_ROWS; s++) gram[t * MOST_ROWS + s] = 0;
        add_gram(x, rows, width, 1, gram);
        for (int64_t t = 0; t < rows; t++)
            for (int64_t s = 0; s <= t; s++) *out++ = gram[t * MOST_ROWS + s];
        x += rows * width;
    }
}

/* squares[u] = sum over row pairs of unit u of (ones + sum over terms of weight a.a') (g.g'), and
   totals[u] = sum over its rows of the root of (ones + sum over terms of weight a.a) (g.g). Unit u
   has `sizes[u]` <= MOST_ROWS rows, one unit behind the other. `known[k]` is 0 or what
   `unit_grams` found for a[k], which then is not read. A squared norm below TINY counts as
   TINY in a total, which covers what underflows in the Grams. */
void gram_norms(int64_t num_units, const int64_t *sizes, const float *g, int64_t g_width,
                int64_t num_terms, const float *const *a, const int64_t *a_width,
                const float *weight, float ones, const float *const *known, double *squares,
                double *totals) {
    float left[MOST_ROWS * MOST_ROWS], right[MOST_ROWS * MOST_ROWS];
    int64_t first = 0, cells = 0;
    for (int64_t u = 0; u < num_units; u++) {
        int64_t rows = sizes[u];
        for (int64_t t = 0; t < rows; t++)
            for (int64_t s = 0; s < MOST_ROWS; s++)
                left[t * MOST_ROWS + s] = 0, right[t * MOST_ROWS + s] = ones;
        add_gram(g + first * g_width, rows, g_width, 1, left);
        for (int64_t k = 0; k < num_terms; k++) {
            const float *gram = known[k] ? known[k] + cells : 0;
            if (!gram) add_gram(a[k] + first * a_width[k], rows, a_width[k], weight[k], right);
            for (int64_t t = 0; gram && t < rows; t++)
                for (int64_t s = 0; s <= t; s++) right[t * MOST_ROWS + s] += weight[k] * *gram++;
        }
        double total = 0, size = 0;
        for (int64_t t = 0; t < rows; t++) {
            const float *l = left + t * MOST_ROWS, *r = right + t * MOST_ROWS;
            double row = 0;
            for (int64_t s = 0; s < t; s++) row += (double)(l[s] * r[s]);
            total += 2 * row + (double)(l[t] * r[t]);
            size += sqrt((l[t] + TINY) * (r[t] + TINY));
        }
        squares[u] = total;
        totals[u] = size;
        first += rows;
        cells += rows * (rows + 1) / 2;
    }
}
