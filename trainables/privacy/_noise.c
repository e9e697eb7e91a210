/* Noise in one pass: cipher, Box-Muller, clip factor, and where there is an `update`, Adam's step.

   No random word leaves the innermost cache. While the words of a block are made, which is
   arithmetic alone, its numbers are on their way from memory. */
#if CIPHER_LANES
#define CHUNK 65536 /* numbers whose words lie together in the stream, as in noise.py */

static struct ahead ahead_of(const float *target, int64_t at, const struct update *u, int64_t hint) {
    const float *g = target + at;
    if (u == 0) return (struct ahead){{g, g, g, g}};
    const float *p = u->parameters[hint] + (at - u->starts[hint]);
    return (struct ahead){{g, u->exp_avg + at, u->exp_avg_sq + at, p}};
}

static void take(float *target, int64_t at, int64_t n, const float *noise, float factor, float std,
                 const struct update *u, int64_t *hint) {
    float *g = target + at;
    if (u == 0) {
        for (int64_t i = 0; i < n; i++) g[i] = g[i] * factor + noise[i] * std;
        return;
    }
    const float share = u->share;
    for (int64_t i = 0; i < n; i++) g[i] = (g[i] * factor + noise[i] * std) * share;
    update_part(u, g, at, n, hint);
}

/* target[begin .. end] = itself * factor + std * noise of the stream from byte `offset` on; returns
   where in the stream it ends. With `u` the step is taken on those numbers as well. */
int64_t add_noise(const uint8_t *key, const uint8_t *counter, int64_t offset, float *target,
                  int64_t begin, int64_t end, float factor, float std, const struct update *u) {
    struct cipher c;
    struct {
        uint8_t radii[ROOM(4 * BLOCK)], turns[ROOM(4 * BLOCK)], more[ROOM(4 * (4 + CHUNK / 512))];
        float one[BLOCK], other[BLOCK];
    } room __attribute__((aligned(64)));
    int64_t hints[2] = {0, 0};
    open_cipher(&c, key, counter);
    for (; begin < end; begin += CHUNK) {
        int64_t size = end - begin < CHUNK ? end - begin : CHUNK;
        int64_t half = (size + 1) / 2, num_extra = 4 + (half >> 8), used = 0;
        const uint32_t *extra = words_at(&c, offset + 8 * half, 4 * num_extra, room.more, 0);
        for (int64_t start = 0; start < half; start += BLOCK) {
            int64_t n = half - start < BLOCK ? half - start : BLOCK;
            int64_t kept = size - half - start < n ? size - half - start : n;
            int64_t first = begin + start, second = begin + half + start;
            struct ahead here = ahead_of(target, first, u, hints[0]);
            struct ahead there = ahead_of(target, second, u, hints[1]);
            const uint32_t *w = words_at(&c, offset + 4 * start, 4 * n, room.radii, &here);
            const uint32_t *turn =
                words_at(&c, offset + 4 * (half + start), 4 * n, room.turns, &there);
            normals(w, turn, n, extra, num_extra, &used, room.one, room.other);
            take(target, first, n, room.one, factor, std, u, hints);
            take(target, second, kept, room.other, factor, std, u, hints + 1);
        }
        offset += 8 * half + 4 * num_extra;
    }
    wipe(&c, sizeof c);
    wipe(&room, sizeof room);
    return offset;
}
#endif
