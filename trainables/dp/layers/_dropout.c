/* The factors of dropout.py in one pass: for each row and pair of columns the same hash, 0 or `scale`
   for each of its halves. */
#include <stdint.h>
#include <string.h>

#define PAIRS 512

/* `out` [num_rows, num_groups, width]; `columns` [num_groups, (width + 1) / 2]. A half, read as a
   signed 16-bit number, is kept where it is at least `lowest`. */
void dropout_factors(const uint32_t *rows, int64_t num_rows, const uint32_t *columns,
                     int64_t num_groups, int64_t width, int32_t lowest, float scale, float *out) {
    const int64_t pairs = (width + 1) / 2;
    uint32_t bits[PAIRS];
    int16_t halves[2 * PAIRS];
    for (int64_t r = 0; r < num_rows; r++) {
        for (int64_t g = 0; g < num_groups; g++) {
            const uint32_t *column = columns + g * pairs;
            for (int64_t first = 0; first < pairs; first += PAIRS) {
                int64_t n = pairs - first < PAIRS ? pairs - first : PAIRS;
                int64_t numbers = width - 2 * first < 2 * n ? width - 2 * first : 2 * n;
                for (int64_t i = 0; i < n; i++) {
                    uint32_t b = (rows[r] ^ column[first + i]) * 0xC2B2AE35u;
                    b ^= b >> 15;
                    b *= 0x2C1B3C6Du;
                    bits[i] = b ^ b >> 16;
                }
                memcpy(halves, bits, (size_t)n * 4);
                for (int64_t i = 0; i < numbers; i++) out[i] = halves[i] >= lowest ? scale : 0.0f;
                out += numbers;
            }
        }
    }
}
