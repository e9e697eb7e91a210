/* Adam (Kingma and Ba 2015) on flat float32 vectors, whole or a part at a time. */
#include <math.h>
#include <stdint.h>

/* Of one step. The gradient, `exp_avg` and `exp_avg_sq` are flat; parameter k of `num` lies at
   `parameters[k]` and holds the numbers `starts[k]` .. `starts[k + 1]` of them. */
struct update {
    int64_t num;
    const int64_t *starts;
    float *const *parameters;
    float *exp_avg, *exp_avg_sq;
    float share;   /* the gradient is first multiplied by it, in place */
    float keep1, new1, keep2, new2; /* beta and 1 - beta of both moments */
    float size;    /* lr sqrt(1 - beta2^t) / (1 - beta1^t) */
    float epsilon; /* eps sqrt(1 - beta2^t) */
};

static void update_run(const struct update *u, float *restrict g, float *restrict m,
                       float *restrict v, float *restrict p, int64_t n) {
    const float new1 = u->new1, keep2 = u->keep2, new2 = u->new2;
    const float size = u->size, epsilon = u->epsilon;
    for (int64_t i = 0; i < n; i++) {
        m[i] = m[i] + (g[i] - m[i]) * new1;
        v[i] = v[i] * keep2 + g[i] * g[i] * new2;
        p[i] = p[i] - size * m[i] / (sqrtf(v[i]) + epsilon);
    }
}

/* The update of the numbers `at` .. `at + n`, whose gradient `g` is; `hint` is about where their
   parameter is, and is left where they end. */
static void update_part(const struct update *u, float *g, int64_t at, int64_t n, int64_t *hint) {
    int64_t k = *hint;
    while (u->starts[k] > at) k--;
    while (n > 0) {
        while (u->starts[k + 1] <= at) k++;
        int64_t here = u->starts[k + 1] - at < n ? u->starts[k + 1] - at : n;
        update_run(u, g, u->exp_avg + at, u->exp_avg_sq + at, u->parameters[k] + at - u->starts[k],
                   here);
        g += here, at += here, n -= here;
    }
    *hint = k;
}

#define PIECE 512

/* One step on the whole gradient of `size` numbers. */
void adam(float *gradient, int64_t size, const struct update *u) {
    int64_t hint = 0;
    for (int64_t at = 0; at < size; at += PIECE) {
        int64_t n = size - at < PIECE ? size - at : PIECE;
        for (int64_t i = 0; i < n; i++) gradient[at + i] *= u->share;
        update_part(u, gradient + at, at, n, &hint);
    }
}
