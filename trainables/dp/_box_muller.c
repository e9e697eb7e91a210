/* Gaussian numbers from random words, by the operations of box_muller.py in the same order.

   Float32 sums, products and square roots are rounded alike on every machine, so both give the
   same bits as long as no product is fused with a sum: -ffp-contract=off, never -ffast-math. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 256

static inline float as_float(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int32_t as_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Words below 2^20 get 32 more bits; returns how many of `extra` are used now. */
static int64_t extend(const uint32_t *word, int64_t n, float *x, const uint32_t *extra,
                      int64_t num_extra, int64_t used) {
    uint32_t smallest = UINT32_MAX;
    for (int64_t i = 0; i < n; i++) smallest = word[i] < smallest ? word[i] : smallest;
    if (smallest >= 1u << 20) return used;
    for (int64_t i = 0; i < n; i++) {
        if (word[i] >= 1u << 20) continue;
        uint32_t more = extra[used++ % num_extra] | 1u;
        x[i] = (float)((double)word[i] + (double)more * 0x1p-32);
    }
    return used;
}

/* The two normals of each of n <= BLOCK pairs, of a word `w` for the radius and one for the `turn`. */
static void normals(const uint32_t *restrict w, const uint32_t *restrict turn, int64_t n,
                    const uint32_t *extra, int64_t num_extra, int64_t *used, float *restrict one,
                    float *restrict other) {
    float x[BLOCK];
    for (int64_t i = 0; i < n; i++) x[i] = (float)w[i];
    *used = extend(w, n, x, extra, num_extra, *used);
    /* Three loops: in one, a chain of operations would be too long for the processor to have the
       next pairs begun while it waits. */
    for (int64_t i = 0; i < n; i++) {
        /* u = x / 2^32 = (1 + f) 2^e with 1 + f in [sqrt(1/2), sqrt(2)) */
        int32_t bits = as_bits(x[i]);
        int32_t power = (bits - 0x3f3504f3) >> 23;
        float f = as_float(bits - (int32_t)((uint32_t)power << 23)) - 1.0f;
        float near = (float)(int32_t)w[i] * 0x1p-32f;
        f = power == 32 ? near : f;
        other[i] = (float)(power - 32);
        x[i] = f;
    }
    for (int64_t i = 0; i < n; i++) {
        float f = x[i], e = other[i];
        float f2 = f * f, f4 = f2 * f2;
        float p01 = -0.249999896f * f + 0.333333313f;
        float p23 = -0.166684806f * f + 0.200007081f;
        float p45 = -0.124110505f * f + 0.142499372f;
        float p67 = -0.115712009f * f + 0.116615109f;
        float low = p23 * f2 + p01;
        float high = p67 * f2 + p45;
        high = 0.0714975372f * f4 + high;
        float p = high * f4 + low;
        p = p * f - 0.5f;
        p = p * f2 + f;
        p = e * 0.693147182f + p;
        x[i] = p * -2.0f;
    }
    for (int64_t i = 0; i < n; i++) {
        float radius = sqrtf(x[i]);
        /* 30 bits of an angle in (-pi/4, pi/4), one for the side, one to change x and y */
        float y = (float)(int32_t)((turn[i] << 2) | 2u) * 3.65729530e-10f;
        float z = y * y;
        float s = -0.000195879504f * z + 0.0083327489f;
        s = s * z + -0.166666642f;
        s = s * z;
        s = s * y + y;
        float c = 2.45479914e-05f * z + -0.00138883037f;
        c = c * z + 0.0416666642f;
        c = c * z + -0.5f;
        c = c * z + 1.0f;
        c = as_float(as_bits(c) ^ (int32_t)(turn[i] & 0x80000000u));
        int change = (turn[i] & 0x40000000u) != 0;
        one[i] = radius * (change ? s : c);
        other[i] = radius * (change ? c : s);
    }
}

/* target = target + std * noise. `first` are `half` numbers, `second` `rest` <= half:
   words[i] and words[half + i] make the noise of first[i] and second[i]. */
void add_normals(const uint32_t *words, int64_t half, int64_t rest, int64_t num_extra,
                 float std, float *first, float *second) {
    const uint32_t *extra = words + 2 * half;
    float one[BLOCK], other[BLOCK];
    int64_t used = 0;
    for (int64_t start = 0; start < half; start += BLOCK) {
        int64_t n = half - start < BLOCK ? half - start : BLOCK;
        normals(words + start, words + half + start, n, extra, num_extra, &used, one, other);
        int64_t kept = rest - start < n ? rest - start : n;
        float *a = first + start, *b = second + start;
        for (int64_t i = 0; i < n; i++) a[i] += one[i] * std;
        for (int64_t i = 0; i < kept; i++) b[i] += other[i] * std;
    }
}
